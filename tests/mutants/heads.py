"""Wrong edits of what is read of a target, of the networks that read it, and of their folders."""

from tests.mutants.mutant import Mutant

_FEATURES, _ROPE = "engine/features.py", "engine/rope.py"
_EAGLE3, _MEDUSA = "engine/heads/eagle3.py", "engine/drafters/medusa.py"
_FOLDER, _LOADER, _FIT = "models/heads/folder.py", "models/heads/eagle3.py", "models/heads/fit_to.py"
_CONFIG = "models/heads/eagle3_config.py"
_READ = "tests/engine/test_features.py::"
_DRAFTED = "tests/engine/test_medusa.py::"
_LOADED = "tests/models/test_heads_eagle3.py::"
_STEPS = ("tests/engine/test_heads.py::test_an_eagle3_head_computes_what_the_reference_does_step_after_step",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the rows of every pass are kept apart",
        _FEATURES,
        "        self._join()\n",
        "",
        (_READ + "test_the_rows_of_many_narrow_passes_are_joined",),
    ),
    Mutant(
        "what has not been launched is joined",
        _FEATURES,
        "at = slice(-len(narrow), -IN_FLIGHT)",
        "at = slice(-len(narrow), None)",
        (_READ + "test_the_rows_of_many_narrow_passes_are_joined",),
    ),
    Mutant(
        "joined rows stand where the last of them stood",
        _FEATURES,
        "[(loose[0][0], joined)]",
        "[(loose[-1][0], joined)]",
        (_READ + "test_the_rows_of_many_narrow_passes_are_joined",),
    ),
    Mutant(
        "states read one layer late",
        _FEATURES,
        'watch(layers[point - 1], "output") if point',
        'watch(layers[min(point, len(layers) - 1)], "output") if point',
        (_READ + "test_every_architecture_is_read_as_its_layers_see_it_or_refused[llama]",),
    ),
    Mutant(
        "a second way through the layers not noticed",
        _FEATURES,
        "once = probe.calls == 1 and",
        "once = probe.calls >= 1 and",
        (_READ + "test_every_architecture_is_read_as_its_layers_see_it_or_refused[nanbeige]",),
    ),
    Mutant(
        "several streams taken for one",
        _FEATURES,
        "len(shape) == 3 and shape[:2] == (1, TRIAL_TOKENS)",
        "shape[-2] == TRIAL_TOKENS",
        (_READ + "test_every_architecture_is_read_as_its_layers_see_it_or_refused[gemma3n]",),
    ),
    Mutant(
        "states outlive their tokens",
        _FEATURES,
        "kept[-1] = (first, rows[: length - first])",
        "kept[-1] = (first, rows)",
        (_READ + "test_through_chunks_passes_and_rewinds_each_row_is_its_tokens_state",),
    ),
    Mutant(
        "states of a tree's way left where they stood",
        _FEATURES,
        "rows[mx.array(kept, mx.int32)]",
        "rows[: len(kept)]",
        (_READ + "test_the_rows_of_a_way_through_a_tree_close_ranks",),
    ),
    Mutant(
        "the state before a pass forgotten",
        _FEATURES,
        "self._stretches = [(start - 1, self._stretches[-1][1][-1:])]",
        "self._stretches = []",
        (_READ + "test_a_reader_of_the_last_place_still_has_it_when_a_pass_is_taken_back",),
    ),
    Mutant(
        "all rows of a tree at one place",
        _ROPE,
        "rotated = by_row(rope)(x, offset=positions)",
        "rotated = by_row(rope)(x, offset=positions[0])",
        ("tests/engine/test_rope.py::test_each_row_turns_as_at_its_own_offset",),
    ),
    Mutant(
        "the residual always plain",
        _EAGLE3,
        "residual = normed if self.norm_before_residual else hidden",
        "residual = hidden",
        _STEPS,
    ),
    Mutant(
        "an attention that loses its last bias",
        _EAGLE3,
        "self.o_proj = nn.Linear(self.heads * size, config.hidden_size, bias=bias)",
        "self.o_proj = nn.Linear(self.heads * size, config.hidden_size, bias=False)",
        (_LOADED + "test_the_biases_are_those_that_others_write",),
    ),
    Mutant(
        "what stands in for the state not normed",
        _EAGLE3,
        "return self.norm(out) if self.config.norm_output else out",
        "return out",
        _STEPS,
    ),
    Mutant(
        "offsets taken for ids",
        _FOLDER,
        'ids = mx.arange(columns) + loaded["d2t"].astype(mx.int64)',
        'ids = loaded["d2t"].astype(mx.int64)',
        (_LOADED + "test_what_is_saved_loads_again",),
    ),
    Mutant(
        "an old config beside new weights",
        _FOLDER,
        '(path / "config.json").unlink(missing_ok=True)',
        "pass",
        (_LOADED + "test_a_write_that_fails_says_so_and_leaves_nothing_that_loads",),
    ),
    Mutant(
        "an index of outputs read as one of inputs",
        _CONFIG,
        "return tuple(sorted(place + 1 for place in outputs))",
        "return outputs",
        (_LOADED + "test_an_index_at_the_top_is_a_layers_input_and_in_eagle_config_its_output",),
    ),
    Mutant(
        "the usual layers by their outputs",
        _CONFIG,
        "return tuple(sorted((2, layers // 2, layers - 3)))",
        "return tuple(sorted((3, layers // 2 + 1, layers - 2)))",
        (_LOADED + "test_an_index_at_the_top_is_a_layers_input_and_in_eagle_config_its_output",),
    ),
    Mutant(
        "any embedding passed over",
        _LOADER,
        "_SAMPLED, _ALIKE = 256, 0.7",
        "_SAMPLED, _ALIKE = 256, -2.0",
        (_LOADED + "test_a_copy_of_the_targets_embedding_is_passed_over_and_another_refused",),
    ),
    Mutant(
        "null taken for a value",
        "models/heads/fields.py",
        "return otherwise if value is None else value",
        "return self.values.get(key, otherwise)",
        (_LOADED + "test_a_field_that_is_null_is_as_good_as_none",),
    ),
    Mutant(
        "an empty list of layers read as it stands",
        _CONFIG,
        "    if inputs:\n",
        '    if folder.config.get("eagle_aux_hidden_state_layer_ids") is not None:\n',
        (_LOADED + "test_a_list_with_no_layers_means_the_usual_ones",),
    ),
    Mutant(
        "norms of queries and keys by the name of the layer",
        _CONFIG,
        'qk_norm="layers.0.self_attn.q_norm.weight" in tensors',
        'qk_norm=layer.get("model_type") == "qwen3"',
        (_LOADED + "test_the_norms_of_a_head_are_those_that_it_has_tensors_for",),
    ),
    Mutant(
        "a head that shares the output matrix lacks one",
        _CONFIG,
        'own_output=known != vocabulary or "lm_head.weight" in tensors',
        "own_output=True",
        (_LOADED + "test_a_head_without_an_output_matrix_reads_the_targets",),
    ),
    Mutant(
        "a copy in two bits refused",
        _LOADER,
        "_SAMPLED, _ALIKE = 256, 0.7",
        "_SAMPLED, _ALIKE = 256, 0.95",
        (_LOADED + "test_a_copy_of_the_targets_embedding_is_passed_over_and_another_refused",),
    ),
    Mutant(
        "rows read that an embedding has not",
        _LOADER,
        "folder.check(names, wanted | copied, _BESIDE)",
        "folder.check(names, wanted, _BESIDE)",
        ("tests/models/test_heads_faults.py::test_each_fault_is_named",),
    ),
    Mutant(
        "a head of other tokens taken",
        _FIT,
        'not in ("", _digest(target.vocabulary))',
        'in ("nonsense",)',
        ("tests/models/test_heads_faults.py::test_a_head_of_another_target_is_refused_with_the_reason",),
    ),
    Mutant(
        "guesses of one depth for all",
        _MEDUSA,
        "(len(path) - 1) * breadth + path[-1] for path in paths",
        "path[-1] for path in paths",
        (_DRAFTED + "test_a_draft_of_n_nodes_is_the_first_n_paths_of_the_tree",),
    ),
    Mutant(
        "children under the noise of the next place",
        _MEDUSA,
        "len(standing.tokens) + mx.arange(depth)",
        "len(standing.tokens) + 1 + mx.arange(depth)",
        (_DRAFTED + "test_coupled_children_are_the_best_under_the_targets_noise_at_their_depth",),
    ),
    Mutant(
        "a state counted on that is gone",
        _MEDUSA,
        "return self._known if held else max(self._known - 1, 0)",
        "return self._known",
        (_DRAFTED + "test_what_is_reused_ends_where_a_state_is_held",),
    ),
    Mutant(
        "a head that is shipped for one target taken for all",
        "models/pairing/auto.py",
        "if is_builtin(target.path):",
        "if target:",
        ("tests/app/test_drafters.py::test_auto_is_the_shipped_head_for_the_builtin_and_lookup_for_others",),
    ),
)
