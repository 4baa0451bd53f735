"""The graph of jobs that follow other jobs."""

from __future__ import annotations

from cronflow.domain.chain import Join, On
from cronflow.domain.job_graph import JobGraph
from cronflow.schemas import Schema


class GraphEdgeSchema(Schema):
    """A job that follows another one."""

    upstream: str
    """The job that is followed."""
    job: str
    """The job that follows it."""
    on: On
    """Which ends of the upstream job's runs count."""
    join: Join
    """Whether the follower needs the ends of all its upstream jobs, or of any one."""


class JobGraphSchema(Schema):
    """The jobs that follow other jobs, and those that they follow."""

    jobs: list[str]
    """The jobs that follow others or are followed, by name."""
    edges: list[GraphEdgeSchema]
    """By upstream job, then by follower."""


def job_graph_schema(graph: JobGraph) -> JobGraphSchema:
    return {
        "jobs": graph.jobs,
        "edges": [
            {"upstream": edge.upstream, "job": edge.job, "on": edge.on, "join": edge.join} for edge in graph.edges
        ],
    }
