"""Every wrong edit that the suite must kill. Each real bug joins them with the test that would have found it."""

from tests.mutants import fit, heads, law, memory, reply, trees
from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *fit.MUTANTS,
    *heads.MUTANTS,
    *law.MUTANTS,
    *memory.MUTANTS,
    *reply.MUTANTS,
    *trees.MUTANTS,
)
