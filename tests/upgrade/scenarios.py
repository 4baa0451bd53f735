"""What an upgrade goes through. Each scenario returns the history of its cluster, or what it has checked."""

from __future__ import annotations

from cronflow.cli.errors import USAGE
from cronflow.domain.cluster import PROTOCOL
from cronflow.testing.history.history import History
from tests.upgrade.cluster import NAMESPACE, NODES, PATIENCE_S, MixedCluster
from tests.upgrade.releases import Release
from tests.upgrade.stored import stored
from tests.upgrade.workload import first_jobs, needs_newer, new_jobs
from tests.waiting import eventually

NEWER = "needs-newer"
WAITS_FOR = "_sys:newer"


async def across(cluster: MixedCluster, old: Release, new: Release) -> History:
    """From a release that does not know the new keys, with its own job file, to one that does."""
    for name in NODES:
        cluster.start(name, old)
    await cluster.up()
    await cluster.apply(old, first_jobs(cluster.sink))
    await cluster.work("before the upgrade")

    first, second = await cluster.followers()
    await cluster.replace(first, new)
    await cluster.work("one follower replaced")
    # A job with a key that the leader does not know waits, and says so.
    await cluster.apply(new, needs_newer(cluster.sink))
    requested = (await cluster.cli(new, "jobs", "run", NEWER, "-o", "name")).split()[-1]
    await cluster.replace(second, new)
    await cluster.work("both followers replaced")
    assert WAITS_FOR in await cluster.cli(new, "runs", "show", requested)
    assert not any(line.run == requested for line in cluster.lines())

    third = await cluster.leader()
    assert third is not None
    await cluster.kill(third)
    cluster.start(third, old)
    await cluster.led_by(new.version)
    await cluster.work("old leader killed, started again as a follower")
    await eventually(lambda: any(line.run == requested for line in cluster.lines()), PATIENCE_S, f"{requested} runs")

    # As long as nothing new is used, it goes back as well.
    await cluster.stop(first)
    await cluster.stop(second)
    await cluster.led_by(old.version)
    cluster.start(first, old)
    cluster.start(second, new)
    await cluster.led_by(old.version)
    await cluster.work("handed back to the old version")
    await cluster.kill(third)
    cluster.start(third, new)
    await cluster.up()
    await cluster.work("old leader killed, replaced")

    await cluster.roll(new)
    await cluster.apply(new, new_jobs(cluster.sink))
    await cluster.work("upgraded, with a limit and a chain")
    await cluster.cli(new, "cluster", "sweep")
    return await cluster.finish(new)


async def within(cluster: MixedCluster, present: Release, patch: Release) -> History:
    """To a newer patch of the same minor version and back, with all keys in use from the beginning."""
    for name in NODES:
        cluster.start(name, present)
    await cluster.up()
    await cluster.apply(present, [*first_jobs(cluster.sink), *new_jobs(cluster.sink)])
    await cluster.work("before the upgrade")
    for there, away in ((patch, present), (present, patch)):
        first, second = await cluster.followers()
        await cluster.replace(first, there)
        await cluster.replace(second, there)
        await cluster.work(f"followers replaced by {there.version}")
        third = await cluster.leader()
        assert third is not None
        await cluster.kill(third)
        cluster.start(third, away)
        await cluster.led_by(there.version)
        await cluster.work(f"leader of {away.version} killed, started again as a follower")
        await cluster.roll(there)
        await cluster.work(f"all nodes run {there.version}")
    await cluster.cli(present, "cluster", "sweep")
    return await cluster.finish(present)


async def newer_protocol(cluster: MixedCluster, present: Release, future: Release) -> History:
    """After a release with a newer protocol has led, the present one neither leads nor starts, and changes nothing."""
    cluster.start("a", present)
    cluster.start("b", present)
    await cluster.up()
    await cluster.apply(present, first_jobs(cluster.sink))
    await cluster.work("before the upgrade")
    follower = (await cluster.followers())[0]
    await cluster.replace(follower, future)
    await cluster.work("the follower replaced")
    await cluster.cli(present, "cluster", "stepdown")
    await cluster.led_by(future.version)
    await cluster.work("the newer protocol leads, and the older node works on")

    # Without the newer node nobody leads.
    (older,) = await cluster.followers()
    await cluster.stop(follower)
    await eventually(
        lambda: "a newer version of CronFlow has led this cluster" in cluster.log(older).read_text(),
        PATIENCE_S,
        f"{older} is refused as the leader",
    )
    await cluster.stop(older)
    before = stored(cluster.mongo.url, cluster.redis.url, NAMESPACE)
    for words in ("node --name c", "jobs list", "jobs delete once"):
        code, output = await cluster.ran(present, *words.split())
        assert code == USAGE, f"{words}: ended with {code}: {output}"
        assert f"(protocol {PROTOCOL + 1}; this version knows {PROTOCOL})" in " ".join(output.split()), output
    assert stored(cluster.mongo.url, cluster.redis.url, NAMESPACE) == before
    for name in NODES:
        cluster.start(name, future)
    await cluster.up()
    await cluster.work("all nodes have the newer protocol")
    await cluster.cli(future, "cluster", "sweep")
    return await cluster.finish(future)
