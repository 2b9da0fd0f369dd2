"""Binary particle swarm: masks that move towards the best masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from chaffinch.tasks.methods.protocol import Problem
from chaffinch.tasks.methods.refits import AT_MOST, PARTS_OF_REFITS, RefitLosses, log_refits
from chaffinch.tasks.selection.baselines.wrappers import Swarm, particle_swarm
from chaffinch.tasks.settings.base import Count, setting
from chaffinch.tasks.settings.method import Method, Traits
from chaffinch.tasks.settings.search_result import Candidate, SearchResult

# The limit is far above useful values and prevents overflows.
_Pull = Annotated[float, Field(ge=0, le=10)]
_SWARM = (
    "a swarm of masks moves towards those whose refits have the lowest loss on the "
    "mask-validation rows"
)


class ParticleSwarm(Method):
    """Binary particle swarm: masks that move towards the best that were found."""

    model_config = ConfigDict(title="Particle swarm")
    declared_traits = Traits(
        refits=_SWARM,
        score_is_place=True,
        takes_sizes=False,  # masks are random: a mask is not the best of its size
        limits_size=True,
        finds_size=True,
        parts_used=PARTS_OF_REFITS,
    )

    kind: Literal["particle_swarm"] = setting("particle_swarm", f"particle_swarm: {_SWARM}.")
    n_features: Count | None = AT_MOST
    individuals: Count = setting(10, "Masks that are judged at a time.")
    generations: Count = setting(
        25, "How often they are judged; each mask costs a refit the first time."
    )
    inertia: _Pull = setting(
        0.7298, "How much of its velocity a mask keeps from one generation on."
    )
    cognitive: _Pull = setting(
        1.49618, "How strongly a mask is drawn to its own best.", title="Cognitive coefficient"
    )
    social: _Pull = setting(
        1.49618, "How strongly a mask is drawn to the best of all.", title="Social coefficient"
    )

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> Sequence[int]:
        return [n_features // 2] * (self.individuals * self.generations)

    def search(self, problem: Problem) -> SearchResult:
        """Move a swarm of masks towards the best masks."""
        log_refits(self.kind, problem, self.individuals * self.generations, at_most="at most ")
        losses = RefitLosses(problem)
        swarm = particle_swarm(
            losses,
            len(problem.schema.features),
            Swarm(**self.model_dump(exclude={"kind", "n_features"})),
            problem.seed,
            keep=problem.keep,
            at_most=self.n_features,
            feasible=problem.feasible,
            on_generation=problem.on_progress,
        )
        losses.check_that_features_matter()
        return SearchResult.of_masks(problem.schema.features, swarm.masks, swarm.losses)

    def candidates(self, result: SearchResult) -> list[Candidate]:
        return [Candidate(result.masks[-1], [], at_most=self.n_features)]
