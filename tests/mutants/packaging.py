"""Wrong edits of what puts Redline.app together and of what checks it."""

from tests.mutants.mutant import Mutant

_FOLDER = "packaging/bundling"
_CHECKED, _MADE = "tests/packaging/test_verify.py::", "tests/packaging/test_assembly.py::"
_EACH, _AFTER = (
    f"{_CHECKED}test_each_fault_is_found_by_its_check_and_by_no_other",
    f"{_CHECKED}test_what_changes_after_signing_is_found",
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a bundle's first page is checked and no other",
        f"{_FOLDER}/signatures.py",
        "in enumerate(directory.code):",
        "in enumerate(directory.code[:1]):",
        (_AFTER,),
    ),
    Mutant(
        "a file added to a bundle is not seen",
        f"{_FOLDER}/seals.py",
        "sorted(present.keys() - listed.keys() - omitted)",
        "sorted(set())",
        (_AFTER,),
    ),
    Mutant(
        "the launcher's signature says nothing of Info.plist",
        f"{_FOLDER}/seals.py",
        '(INFO_SLOT, "Info.plist", layout.info.read_bytes())',
        '(RESOURCES_SLOT, "Info.plist", seal)',
        (_AFTER,),
    ),
    Mutant(
        "a weak dependency of a bundle must be there",
        f"{_FOLDER}/links.py",
        "name.startswith(SYSTEM) or dependency.weak",
        "name.startswith(SYSTEM)",
        (f"{_CHECKED}test_a_weak_dependency_need_not_be_there",),
    ),
    Mutant(
        "a library may come from anywhere",
        f"{_FOLDER}/links.py",
        "return app.resolve() in real.parents and is_macho(real)",
        "return True or is_macho(real)",
        (_EACH,),
    ),
    Mutant(
        "an excuse for a newer system has no end",
        f"{_FOLDER}/checks.py",
        " and wanted <= most for",
        " for",
        (f"{_CHECKED}test_a_newer_system_is_excused_by_name_only_as_far_as_the_reason_goes",),
    ),
    Mutant(
        "any entitlement will do",
        f"{_FOLDER}/checks.py",
        "if name not in ENTITLEMENTS:",
        "if name in ENTITLEMENTS:",
        (_EACH,),
    ),
    Mutant(
        "bytecode may look at its source",
        f"{_FOLDER}/imports.py",
        'compiled.read_bytes()[4:8] != b"\\x01\\0\\0\\0"',
        'compiled.read_bytes()[4:8] == b"\\x03\\0\\0\\0"',
        (_EACH,),
    ),
    Mutant(
        "bytecode has the folder where it was compiled",
        f"{_FOLDER}/compiling.py",
        ", stripdir=home,",
        ",",
        (f"{_MADE}test_compiled_files_are_the_same_wherever_they_are_compiled",),
    ),
    Mutant(
        "a trim rule keeps nothing",
        f"{_FOLDER}/trim.py",
        " and not any(fnmatchcase(name, p) for p in self.keep)",
        "",
        (f"{_MADE}test_what_the_list_names_goes_and_what_it_keeps_stays",),
    ),
    Mutant(
        "a search path stays doubled",
        f"{_FOLDER}/mend.py",
        "if text in seen or not text",
        "if not text",
        (f"{_MADE}test_search_paths_of_builders_lead_nowhere_and_libraries_are_renamed",),
    ),
    Mutant(
        "a program in the image may be none",
        f"{_FOLDER}/iso.py",
        "_PROGRAM if path.stat().st_mode & stat.S_IXUSR else _FILE",
        "_FILE",
        (f"{_MADE}test_an_image_holds_what_was_put_into_it_and_every_difference_is_told",),
    ),
)
