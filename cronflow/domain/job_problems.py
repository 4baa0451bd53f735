"""What is wrong with a job although each of its parts is valid: targets that no node can run, and parts
that have no effect on the target.
"""

from __future__ import annotations

from cronflow.domain.concurrency import limit_problems
from cronflow.domain.errors import Problem
from cronflow.domain.job import Job, label_problems, target_mismatches, target_problems
from cronflow.domain.upstream_values import upstream_problems


def problems_of(job: Job) -> list[Problem]:
    """Its problems, each at its key."""
    return [
        *target_problems(job.target),
        *target_mismatches(job),
        *label_problems(job.require),
        *limit_problems(job),
        *upstream_problems(job),
    ]
