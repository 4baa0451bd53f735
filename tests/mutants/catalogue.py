"""The mutants: a text of the source and its replacement.

Each condition of a compare-and-set is a mutant, and so is each comparison of a Lua script, each mark that later
conditions read, and each test of whether a write was applied. Equivalent mutants are not listed; a comment explains
each omission.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path("cronflow")


@dataclass(frozen=True, slots=True)
class Mutant:
    """`text` occurs exactly once in `file`, which is relative to `cronflow`."""

    file: str
    text: str
    replacement: str

    def apply(self, source: str) -> str:
        """The mutated source. ValueError, with the file, unless the text occurs exactly once."""
        count = source.count(self.text)
        if count != 1:
            raise ValueError(f"{PACKAGE / self.file}: {self.text!r} occurs {count} times; the list needs exactly one")
        return source.replace(self.text, self.replacement)

    def lines(self, source: str) -> range:
        """The numbers of the changed lines, from 1."""
        first = source[: source.index(self.text)].count("\n") + 1
        return range(first, first + self.text.strip("\n").count("\n") + 1)

    def __str__(self) -> str:
        old, new = " ".join(self.text.split()), " ".join(self.replacement.split())
        return f"{self.file}: {old}  ->  {new or '(nothing)'}"


def _of(file: str, *pairs: tuple[str, str]) -> Iterator[Mutant]:
    for text, replacement in pairs:
        yield Mutant(file, text, replacement)


MONGO: tuple[Mutant, ...] = (
    *_of(
        "backends/mongo/access.py",
        ('{"_id": user.name, "stamp": stamp}', '{"_id": user.name}'),
        ('{"_id": session, "token_hash": old}', '{"_id": session}'),
        ('{"subject": subject}', "{}"),
    ),
    *_of(
        "backends/mongo/indexes.py",
        ('            name="subject",\n            unique=True,\n', '            name="subject",\n'),
    ),
    *_of(
        "backends/mongo/alerts.py",
        # replace
        ('{"_id": record.name, "rev": rev}', '{"_id": record.name}'),
        ('| {"rev": rev + 1}', '| {"rev": rev}'),
        # held
        ('match: dict[str, Any] = {"alert": alert, "held": True}', 'match: dict[str, Any] = {"held": True}'),
        ('match: dict[str, Any] = {"alert": alert, "held": True}', 'match: dict[str, Any] = {"alert": alert}'),
        ('            match["kind"] = {"$in": [kind.value for kind in kinds]}\n', "            pass\n"),
        ('            match["created_at"] = {"$gte": created_at}\n', ""),
        ('[{"created_at": {"$gt": created_at}}, {"_id": {"$gt": notification}}]', '[{"_id": {"$gt": notification}}]'),
        (
            '[{"created_at": {"$gt": created_at}}, {"_id": {"$gt": notification}}]',
            '[{"created_at": {"$gt": created_at}}]',
        ),
        # settle
        ('{"_id": {"$in": members}, "held": True}', '{"_id": {"$in": members}}'),
        ('{"_id": {"$in": members}, "held": True}', '{"held": True}'),
        # delete
        ('_notices.delete_many({"alert": name})', "_notices.delete_many({})"),
        ('_failing.delete_many({"alert": name})', "_failing.delete_many({})"),
        ('_crossings.delete_many({"alert": name})', "_crossings.delete_many({})"),
        # cross
        ('{"_id": crossing.place, "number": crossing.number - 1}', '{"_id": crossing.place}'),
        # judge
        ('{"$max": {"judged": until}}', '{"$set": {"judged": until}}'),
        # fail and recovered
        (', "ended_at": {"$lt": one.ended_at}}', "}"),
        (', "run": failing.run})', "})"),
        # claim
        ('{"waiting": True, "alert": {"$nin"', '{"alert": {"$nin"'),
        (', "alert": {"$nin": list(excluding)}}', "}"),
        ('"_id": {"alert": "$alert", "job": "$job"},', '"_id": "$_id",'),
        ('"waiting": True, "$expr": IS_DUE}', '"waiting": True}'),
        ('"claim": {"$literal": claim}, "due_at": again, "attempts"', '"claim": {"$literal": claim}, "attempts"'),
        # record_attempt
        ('{"_id": notification.id, "claim": notification.claim}', '{"_id": notification.id}'),
        ('            "claim": None,\n', ""),
        ('            fields["due_at"] = ', "            fields['never'] = "),
        ('{"$unset": ["waiting", "due_at"]}', '{"$unset": ["due_at"]}'),
        # alert conditions
        ('{"untold": True}', "{}"),
        ('{"_id": {"$in": list(runs)}}', "{}"),
        ('            "$expr": {"$gt": [{"$ifNull": ["$started_at", NEVER]}, bound]},\n', ""),
        ('{"$gt": [{"$ifNull"', '{"$gte": [{"$ifNull"'),
        # `waiting` need not ask for open runs: its hint names an index that has no others.
        ('"fire_at": {"$lt": until}, "started_at"', '"started_at"'),
        (', "started_at": None}', "}"),
        ('"active": True, "due_at"', '"due_at"'),
        ('"due_at": {"$lte": due}, ', ""),
        (', "next_fire": {"$lte": fire}}', "}"),
    ),
    *_of(
        "backends/mongo/calendars.py",
        # put and delete
        ("if rev != (number if exists else 0):", "if False:"),
        ("return number + 1 if won else None", "return number + 1"),
        # An upsert with another revision would meet the same `_id`.
        ('{"_id": name, "rev": number}, {"$set"', '{"_id": name}, {"$set"'),
        # users and outdated
        ('{"_id": {"$gt": after}, "calendars": {"$elemMatch": _pins_of(name)}', '{"calendars": {"$exists": True}'),
        (" | {\"$ne\": f\"{one['_id']}@{one['rev']}\"}", ""),
    ),
    *_of(
        "backends/mongo/limits.py",
        # acquire: which of them have a permit. A count that is too low only costs a read.
        (" == len(requests):", " >= 0:"),
        ("state is not None and has_permit(state, request.run, request.fence)", "state is not None"),
        # its conditions
        ('        "permits": {"$not": {"$elemMatch": {"run": run, "fence": {"$gte": fence}}}},\n', ""),
        ('{"run": run, "fence": {"$gte": fence}}', '{"run": run, "fence": fence}'),
        ('{"run": run, "fence": {"$gte": fence}}', '{"run": run, "fence": {"$gt": fence}}'),
        ('{"run": run, "fence": {"$gte": fence}}', '{"fence": {"$gte": fence}}'),
        ('        "$expr": {"$and": conditions},\n', ""),
        ('{"$lt": [{"$size": others}, limit]}', '{"$lte": [{"$size": others}, limit]}'),
        ('{"$lt": [{"$size": others}, limit]}', '{"$lt": [{"$size": "$permits"}, limit]}'),
        ("        conditions.append(_in_time(interval, tolerance))\n", ""),
        ('{"$lte": [EARLY, tolerance]}', '{"$lte": [EARLY, 0]}'),
        (", set_back]}", "]}"),
        # what it leaves behind for the next one
        ('{"$concatArrays": [others, [permit]]}', '{"$concatArrays": ["$permits", [permit]]}'),
        ('        sets["next_at"] = _after_start(interval, tolerance)\n', ""),
        ('{"$max": ["$$NOW", "$next_at"]}', '"$$NOW"'),
        ('{"$max": ["$$NOW", "$next_at"]}', '"$next_at"'),
        ('{"$cond": [set_back, "$$NOW", {"$max"', '{"$cond": [False, "$$NOW", {"$max"'),
        ('{"$add": [begin, interval]}]}', "begin]}"),
        (', "$currentDate": {"used_at": True}', ""),
        # release
        ('{"permits": {"run": run, "fence": fence}}', '{"permits": {"run": run}}'),
        ('{"permits": {"run": run, "fence": fence}}', '{"permits": {"fence": fence}}'),
        # named limits
        ('"$gt": named_id(after), "$lt": AFTER_NAMED', '"$gt": named_id(after)'),
        ('| {"next_at": None, "updated_at"', '| {"updated_at"'),
        # what waits
        ('{"$exists": True}, "waiting.reason": reasons}', '{"$exists": True}}'),
        # forget_unused
        ('{"_id": OF_KEYS, "permits"', '{"permits"'),
        ('"permits": [], "$expr": unused', '"$expr": unused'),
        (', "$expr": unused}', "}"),
    ),
    *_of(
        "backends/mongo/breakers.py",
        # replace
        ('COMPARED = ("opened_at", "probe_at", "counts_from")', 'COMPARED = ("probe_at", "counts_from")'),
        ('{"_id": state.job, **{name', "{**{name"),
        ("**{name: getattr(seen, name) for name in COMPARED}}", "}"),
        ("upsert=seen == BreakerState(job=seen.job)", "upsert=True"),
        ("return result.matched_count == 1 or result.upserted_id is not None", "return True"),
        # remove
        ('delete_many({"_id": {"$in": list(jobs)}})', "delete_many({})"),
    ),
    *_of(
        "backends/mongo/chains.py",
        # follow
        ('"$set": {"followed": True}, "$inc": {"rev": 1}}', '"$set": {"followed": True}}'),
        (', "followed": {"$ne": True}}', "}"),
        # ended
        ('{"followed": True, "state": {"$in": ENDED_STATES}}', '{"followed": True}'),
        # answered
        ('{"_id": {"$in": list(runs)}, "state": {"$in": ENDED_STATES}}', '{"_id": {"$in": list(runs)}}'),
        # marked
        ('list(runs)}, "followed": True, "state"', 'list(runs)}, "state"'),
        # write_join
        ('{"_id": join.id, "rev": join.rev}', '{"_id": join.id}'),
        ('{"_id": join.id, "rev": {"$lt": 0}}', '{"_id": join.id}'),
        (
            "return bool((await self._joins.update_one(match, update)).matched_count)",
            "await self._joins.update_one(match, update)\n                return True",
        ),
        # forget_joins
        (', "$or": [{"waits": None}, {"chain": {"$ne": None}}]}', "}"),
        # forget_joins_of: either condition would do, because the ids of a job's joins begin with its name
        ('{"_id": {"$gte": job, "$lt": f"{job}$"}, "job": job}', "{}"),
    ),
    *_of(
        "backends/mongo/backfills.py",
        # watched
        ('{"$match": {"watched": True}}', '{"$match": {}}'),
        ('["$instants", "$inserted", page]', '["$instants", 0, page]'),
        # advance
        ('"state": BackfillState.RUNNING.value, "inserted": inserted}', '"inserted": inserted}'),
        ('"state": BackfillState.RUNNING.value, "inserted": inserted}', '"state": BackfillState.RUNNING.value}'),
        ('"inserted": to, ', ""),
        (', "due_at": due_at}}', "}}"),
        # cancel
        ('{"_id": id, "state": BackfillState.RUNNING.value}, {"$set": sets}', '{"_id": id}, {"$set": sets}'),
        # close
        ('{"_id": id, "watched": True}', '{"_id": id}'),
        ('match | {"state": state.value}', "match"),
        ('match | {"state": BackfillState.RUNNING.value}', "match"),
        # forget
        ('{"watched": None, "ended_at"', '{"ended_at"'),
        (', "ended_at": {"$lt": ended_before}}', "}"),
        (" if not states]", "]"),
    ),
    *_of(
        "backends/mongo/catch_up.py",
        # write
        ('{"_id": RECOVERY, "rev": plan.rev}', '{"_id": RECOVERY}'),
        (
            "except DuplicateKeyError:\n                return False",
            "except DuplicateKeyError:\n                return True",
        ),
        # hold
        ('{"_id": name, "rev": one.rev}', '{"_id": name}'),
        # held
        ('.sort([("priority", -1), ("next_fire", 1)])', '.sort([("next_fire", 1)])'),
    ),
    *_of(
        "backends/mongo/logs.py",
        ('{"run": run, "fence": fence, "n": {"$gte"', '{"fence": fence, "n": {"$gte"'),
        ('"fence": fence, "n": {"$gte"', '"n": {"$gte"'),
        ('"n": {"$gte": first, "$lt": end}', '"n": {"$lt": end}'),
        ('"n": {"$gte": first, "$lt": end}', '"n": {"$gte": first}'),
    ),
    *_of(
        "backends/mongo/jobs.py",
        # move
        ('"rev": move.rev, ', ""),
        (', "term": {"$lte": term}},\n                {\n', "},\n                {\n"),
        ('"rev": move.rev, "term": {"$lte": term}', '"rev": move.rev, "term": {"$lt": term}'),
        ('                        "term": term,\n', ""),
        ('                    "$inc": {"rev": 1, "fired": 1} if move.counts else {"rev": 1},\n', ""),
        ('{"rev": 1, "fired": 1} if move.counts else {"rev": 1}', '{"rev": 1}'),
        ('{"rev": 1, "fired": 1} if move.counts else {"rev": 1}', '{"rev": 1, "fired": 1}'),
        ('                    "$unset": {"waiting": ""},\n', ""),
        ('                        "active": move.next_fire is not None,\n', ""),
        (" == len(moves):", " >= 0:"),
        (" if fences.get(move.job) == move.pending_run.fence", ""),
        # reposition
        ('"rev": cursor.rev, ', ""),
        ('"rev": cursor.rev, "term": {"$lte": term}', '"rev": cursor.rev'),
        ('"rev": cursor.rev, "term": {"$lte": term}', '"rev": cursor.rev, "term": {"$lt": term}'),
        (', "due_at": fire, "term": term}', ', "due_at": fire}'),
        ('{"active": False} if fire is None else {}', "{}"),
        ('{} if fire is None else {"$min": {"since": fire}}', "{}"),
        ('"$unset": {"waiting": ""}, "$inc": {"rev": 1}}', '"$unset": {"waiting": ""}}'),
        ('"$unset": {"waiting": ""}, "$inc"', '"$inc"'),
        (" == len(jobs):", " >= 0:"),
        (' if (row["rev"], row["term"], row["next_fire"]) == expected[row["_id"]]', ""),
        # defer
        ('{"_id": name, "rev": one.rev}', '{"_id": name}'),
        # fence
        ('chosen | {"term": {"$lte": term}}', "chosen"),
        ('chosen | {"term": {"$lte": term}}', 'chosen | {"term": {"$lt": term}}'),
        ('find(chosen | {"term": term})', "find(chosen)"),
        ('{"$inc": {"rev": 1}, "$set": {"term": term}}', '{"$set": {"term": term}}'),
        ('{"$inc": {"rev": 1}, "$set": {"term": term}}', '{"$inc": {"rev": 1}}'),
        # replace
        ('{"_id": record.name, "rev": rev}', '{"_id": record.name}'),
        ('{"rev": rev + 1}', '{"rev": rev}'),
        # plans
        ('{"$gt": 0, "$lt": term}', '{"$lt": term}'),
        ('{"$gt": 0, "$lt": term}', '{"$gt": 0, "$lte": term}'),
        ('                {"$expr": {"$lt": ["$at", {"$subtract": ["$$NOW", age_ms]}]}},\n', ""),
        ('["$at", {"$subtract": ["$$NOW", age_ms]}]', '["$at", "$$NOW"]'),
    ),
    *_of(
        "backends/mongo/runs.py",
        # apply: which of them won
        (" == len(changes):", " >= 0:"),
        ('row["state"] == change.target.value and ', ""),
        (' and row["fence"] == change.fence', ""),
        ("return bool(row.get(name) == value)", "return True"),
        # the conditions
        (', "state": {"$in": [state.value for state in change.sources]}}', "}"),
        ('        match["fence"] = change.fence\n', "        pass\n"),
        ('        match["job_ver"] = change.job_ver\n', "        pass\n"),
        ('        match["job_ver"] = {"$lt": change.below_ver}\n', "        pass\n"),
        ('{"$lt": change.below_ver}', '{"$lte": change.below_ver}'),
        ('        match["cancel_requested"] = {"$ne": True}\n', "        pass\n"),
        ('        match["start_id"] = {"$in": [None, change.own_start]}\n', "        pass\n"),
        ('{"$in": [None, change.own_start]}', "None"),
        ('{"$in": [None, change.own_start]}', "change.own_start"),
        ('        match["$expr"] = HAS_PASSED\n', "        pass\n"),
        # what it leaves behind for the next one
        ('    sets["state"] = change.target.value\n', ""),
        ('{"open": "", "check_at": ""}', '{"open": ""}'),
        ('{"open": "", "check_at": ""}', '{"check_at": ""}'),
        ('sets["dead"] = sets["untold"] = True', 'sets["untold"] = True'),
        ('sets["dead"] = sets["untold"] = True', 'sets["dead"] = True'),
        ('{"$add": ["$$NOW", check_in_ms]}', '"$$NOW"'),
        # what an insert leaves behind; a run that nobody has started has no field that a change removes
        ('    document["state"] = change.target.value\n', ""),
        ('document["attempts"] = [codec.attempt_document(change.attempt)]', "pass"),
        ('document["dead"] = document["untold"] = True', 'document["untold"] = True'),
        ('del document["open"], document["check_at"]', 'del document["open"]'),
        ('del document["open"], document["check_at"]', 'del document["check_at"]'),
        ('document["check_at"] = now + change.check_in', "pass"),
        # what the reconciler and the planner see
        ('"priority": ANY_PRIORITY, "$expr": HAS_PASSED}', '"priority": ANY_PRIORITY}'),
        ('"state": {"$in": TAKEN}, "priority"', '"priority"'),
        ('queued = taken | {"state": RunState.RETRYING.value}', "queued = dict(taken)"),
        ('queued["job"] = {"$nin": list(without)}', "pass"),
        ('part(queued, {"priority": -1, "check_at": 1}, waiting)', 'part(queued, {"check_at": 1}, waiting)'),
        ('            part(queued, {"check_at": 1}, max(1, waiting // OLDEST_EVERY)),\n', ""),
        # `open_of` need not ask for open runs: its hint names an index that has no others.
        ('"open": True, "state": {"$in": TAKEN}}, "turn"', '"open": True}, "open"'),
        ('"_id": result.finish_id,', '"_id": result.finish_id + str(id(result)),'),
        # dead letters
        ('{"dead": True} if resolution.how is', "{} if resolution.how is"),
        ('else {"open": None}', "else {}"),
        (', "$unset": {"dead": ""}}', "}"),
        ("            if result.matched_count:\n", "            if result is not None:\n"),
    ),
    *_of(
        "backends/mongo/database.py",
        # What a newer protocol has led is not opened.
        ('if (protocol := leader.get("proto", PROTOCOL)) > PROTOCOL:', "if False:"),
        ('leader.get("proto", PROTOCOL)) > PROTOCOL:', 'leader.get("proto", PROTOCOL)) >= PROTOCOL:'),
        ('return ids - {failure["op"]["_id"] for failure in failures}', "return ids"),
        ("documents, ordered=False", "documents, ordered=True"),
    ),
    *_of(
        "backends/mongo/control.py",
        ('{"_id": "leader", "proto": {"$not": {"$gt": PROTOCOL}}}', '{"_id": "leader"}'),
        (', "proto": PROTOCOL}}', "}}"),
        ('{"$max": [{"$ifNull": ["$fence_hi", 0]}, NOW_US]}', "NOW_US"),
        ('{"$add": [{"$ifNull": ["$term", 0]}, 1]}', '{"$ifNull": ["$term", 1]}'),
        ('{"_id": "leader", "term": term, "holder": holder}', '{"_id": "leader", "holder": holder}'),
        ('{"_id": "leader", "term": term, "holder": holder}', '{"_id": "leader", "term": term}'),
        ('{"$max": ["$fence_hi", ahead]}', "ahead"),
        # end_maintenance
        ('else {"_id": MAINTENANCE, "since": since}', 'else {"_id": MAINTENANCE}'),
        # claim_zone_data and keep_zone_data
        ('{"_id": ZONE_DATA, "term": {"$lte": term}}', '{"_id": ZONE_DATA}'),
        ('{"_id": ZONE_DATA, "term": {"$lte": term}}', '{"_id": ZONE_DATA, "term": {"$lt": term}}'),
        ('{"$set": {"term": term, "identity"', '{"$set": {"identity"'),
        ('{"$cond": [is_same, "$identity", None]}', '"$identity"'),
        ('{"_id": ZONE_DATA, "term": term}', '{"_id": ZONE_DATA}'),
    ),
    *_of(
        "backends/mongo/admin.py",
        # delete_runs. The second time, in `{**match, …}`, nothing can have changed: ended runs stay as they are.
        ('"state": {"$in": ENDED_STATES}, "ended_at"', '"ended_at"'),
        (', "ended_at": {"$lt": ended_before}}', "}"),
        ('_late.delete_many({"run": {"$in": going}})', "_late.delete_many({})"),
        ('_results.delete_many({"run": {"$in": going}})', "_results.delete_many({})"),
        # delete_job
        ('if await self._runs.find_one({"job": name}, {"_id": 1}) is not None:', "if False:"),
        ('"rev": rev, "deleted_at": {"$type": "date"}', '"deleted_at": {"$type": "date"}'),
        ('"rev": rev, "deleted_at": {"$type": "date"}', '"rev": rev'),
        # mark
        ('{"_id": {"$in": list(ids)}, "state": {"$in": ENDED_STATES}}\n', '{"_id": {"$in": list(ids)}}\n'),
        (', "state": {"$in": OPEN_STATES}}', "}"),
        ('{"$ifNull": ["$check_at", "$$NOW"]}', '"$$NOW"'),
    ),
)

MEMORY: tuple[Mutant, ...] = (
    *_of(
        "testing/memory/stores.py",
        # move
        ("record.rev == move.rev and record.term <= term", "record.term <= term"),
        ("record.rev == move.rev and record.term <= term", "record.rev == move.rev"),
        ("record.rev == move.rev and record.term <= term", "record.rev == move.rev and record.term < term"),
        ("                rev=record.rev + 1,\n", ""),
        ("                term=term,\n", ""),
        ("                waiting=None,\n", ""),
        ("present is not None and present.fence == move.pending_run.fence", "present is not None"),
        (" + move.counts", ""),
        # reposition
        ("record.rev == cursor.rev and record.term <= term", "record.term <= term"),
        ("record.rev == cursor.rev and record.term <= term", "record.rev == cursor.rev"),
        ("record.rev == cursor.rev and record.term <= term", "record.rev == cursor.rev and record.term < term"),
        ("                rev=cursor.rev + 1,\n", ""),
        ('"term": term, "waiting": None}', '"waiting": None}'),
        ('"term": term, "waiting": None}', '"term": term}'),
        ("fire if fire and record.since and fire < record.since else record.since", "record.since"),
        (" == (cursor.rev + 1, term, fire)", " is not None"),
        # defer
        ("record is not None and record.rev == rev", "record is not None"),
        # fence
        ("lambda present: present.term <= term", "lambda present: True"),
        ("lambda present: present.term <= term", "lambda present: present.term < term"),
        ("replace(present, rev=present.rev + 1, term=term)", "replace(present, term=term)"),
        ("replace(present, rev=present.rev + 1, term=term)", "replace(present, rev=present.rev + 1)"),
        # replace
        ("lambda present: present.rev == rev", "lambda present: True"),
        ("replace(record, rev=rev + 1)", "replace(record, rev=rev)"),
        # plans
        ("0 < note.term < term", "note.term < term"),
        ("0 < note.term < term", "0 < note.term <= term"),
        ("0 < note.term < term or at < limit", "0 < note.term < term"),
        ("0 < note.term < term or at < limit", "True"),
        # runs
        ("fresh = [run for run in runs if self.documents.runs.insert(run.id, run)]", "fresh = list(runs)"),
        ("run.state == change.target and run.fence == change.fence", "run.fence == change.fence"),
        ("run.state == change.target and run.fence == change.fence", "run.state == change.target"),
        ("return bool(getattr(run, name) == value)", "return True"),
        ("            run.state in change.sources\n            and ", "            "),
        ("            and (change.fence is None or run.fence == change.fence)\n", ""),
        ("            and (change.job_ver is None or run.job_ver == change.job_ver)\n", ""),
        ("            and (change.below_ver is None or run.job_ver < change.below_ver)\n", ""),
        ("run.job_ver < change.below_ver", "run.job_ver <= change.below_ver"),
        ("            and not (change.unless_cancelled and run.cancel_requested)\n", ""),
        ("            and (change.own_start is None or run.start_id in (None, change.own_start))\n", ""),
        ("run.start_id in (None, change.own_start)", "run.start_id is None"),
        ("run.start_id in (None, change.own_start)", "run.start_id == change.own_start"),
        (
            "            and (not change.only_when_due or (run.check_at is not None",
            "            and (True or (run.check_at is not None",
        ),
        ("        if change.target not in OPEN:\n", "        if False:\n"),
        ('sets["check_at"] = (now or self.clock.now()) + change.check_in', "pass"),
        ("(now or self.clock.now())", "self.clock.now()"),
        (
            "change) for run, change in runs if self.documents.runs.insert(run.id, run)]",
            "change) for run, change in runs]",
        ),
        ("                    and run.check_at <= now\n", ""),
        ("                    and (run.state is RunState.RETRYING) is queued\n", ""),
        ("                    and not (queued and run.job in without)\n", ""),
        ("(-run.priority, run.check_at, run.id)", "(run.check_at, run.id)"),
        ("            if run.state in states and run.job in jobs:\n", "            if run.job in jobs:\n"),
        ("self._in(OPEN - {RunState.RETRYING}, jobs)", "self._in(OPEN, jobs)"),
        ("            if change.target in DEAD and parent_of(change.run) is None:\n", "            if True:\n"),
        (
            "self.documents.late.insert(result.finish_id, result)",
            "self.documents.late.insert(str(len(self.documents.late)), result)",
        ),
        # control
        ("1 if before is None else before.term + 1", "1"),
        ("max(documents.fence_high, _us(now))", "_us(now)"),
        ("(record.term, record.holder) != (term, holder)", "record.holder != holder"),
        ("(record.term, record.holder) != (term, holder)", "record.term != term"),
        ("max(documents.fence_high, _us(now) + FENCE_RANGE_US)", "_us(now) + FENCE_RANGE_US"),
        # versions and dead letters
        (
            "self.documents.versions.insert((version.job.name, version.ver), version)",
            "self.documents.versions[(version.job.name, version.ver)] = version",
        ),
        ("ACKNOWLEDGED else not run.is_open", "ACKNOWLEDGED else True"),
        ("return run.is_dead if resolution.how is Settled.ACKNOWLEDGED else not run.is_open", "return not run.is_open"),
    ),
    *_of(
        "testing/memory/documents.py",
        # insert and replace_if
        ("        if key in self:\n            return False\n", ""),
        ("if value is None or not holds(value):", "if value is None:"),
    ),
    *_of(
        "testing/memory/admin.py",
        ("if not run.is_open and run.ended_at and", "if run.ended_at and"),
        (" and run.ended_at < ended_before}", "}"),
        ("lambda late: late.run in gone", "lambda late: True"),
        ("lambda result: result.run in gone", "lambda result: True"),
        ("record is None or record.rev != rev or record.deleted_at is None", "record is None or record.rev != rev"),
        (
            "record is None or record.rev != rev or record.deleted_at is None",
            "record is None or record.deleted_at is None",
        ),
        ("if any(run.job == name for run in self.documents.runs.values()):", "if False:"),
        ("(run.check_at or self.clock.now()) if run.is_open else None", "run.check_at or self.clock.now()"),
        ("(run.check_at or self.clock.now()) if run.is_open else None", "self.clock.now() if run.is_open else None"),
        (
            "if not memory.alive(node) and any(start_by == inf for start_by, _ in items)",
            "if any(start_by == inf for start_by, _ in items)",
        ),
        ("if not memory.alive(node) and any(start_by == inf for start_by, _ in items)", "if not memory.alive(node)"),
        ("if until == inf]", "]"),
        ("if _lock(key) in keys and until == inf:", "if _lock(key) in keys:"),
        ("if seen < limit and not memory.alive(node)]", "if not memory.alive(node)]"),
    ),
    *_of(
        "testing/memory/coordination.py",
        # what expires
        ("if self.leader is not None and self.leader[1] <= self.clock.monotonic():", "if False:"),
        ("return entry is not None and entry[1] > self.clock.monotonic()", "return entry is not None"),
        ("return self.cancels.get(run, 0.0) > self.clock.monotonic()", "return False"),
        ("if entry is None or entry[2] <= self.clock.monotonic():", "if entry is None:"),
        # election
        ("if self.memory.leader_now() is not None:", "if False:"),
        ("self.memory.leader_now() != holder or self.memory.term > term", "self.memory.term > term"),
        ("self.memory.leader_now() != holder or self.memory.term > term", "self.memory.leader_now() != holder"),
        ("memory.term > term or present not in (None, holder)", "present not in (None, holder)"),
        ("memory.term > term or present not in (None, holder)", "memory.term > term"),
        (
            "present == holder and (memory.term, memory.redis_epoch) == (term, redis_epoch)",
            "(memory.term, memory.redis_epoch) == (term, redis_epoch)",
        ),
        (
            "present == holder and (memory.term, memory.redis_epoch) == (term, redis_epoch)",
            "present == holder and memory.redis_epoch == redis_epoch",
        ),
        (
            "present == holder and (memory.term, memory.redis_epoch) == (term, redis_epoch)",
            "present == holder and memory.term == term",
        ),
        ("if known and memory.resign == term:", "if known and memory.resign is not None:"),
        ("        if self.memory.leader_now() != holder:\n", "        if False:\n"),
        # membership
        ("if node != report.id and node_name(node) == report.name and", "if node_name(node) == report.name and"),
        ("if node != report.id and node_name(node) == report.name and", "if node != report.id and"),
        ("node_name(node) == report.name and self.memory.alive(node)", "node_name(node) == report.name"),
        ("        if asked:\n", "        if False:\n"),
        ("self.memory.drains.setdefault(report.name, True)", "self.memory.drains[report.name] = True"),
        ("            if memory.alive(node)\n", ""),
        # queue
        ("if self.memory.term > term:", "if False:"),
        ("if self.memory.redis_epoch != redis_epoch:", "if False:"),
        ("if now > start_by or memory", "if memory"),
        ("if assignment.term < memory.term:", "if False:"),
        (" or memory.is_cancelled(assignment.run) or withdrawn:", " or withdrawn:"),
        (" or memory.is_cancelled(assignment.run) or withdrawn:", " or memory.is_cancelled(assignment.run):"),
        ("assignment.fence <= memory.withdrawn_up_to", "assignment.fence < memory.withdrawn_up_to"),
        ("assignment.fence <= memory.withdrawn_up_to(assignment.run)", "memory.withdrawn_up_to(assignment.run) > 0"),
        (
            "                start_within.append(start_by - now)",
            "                start_within.append(memory.start_by_s)",
        ),
        (
            "self.clock.monotonic() + self.memory.start_by_s - waited_s",
            "self.clock.monotonic() + self.memory.start_by_s",
        ),
        ("if present is not None and present[0].run != job_lock.run:", "if False:"),
        ("elif present is not None and present[0].fence >= job_lock.fence:", "elif False:"),
        ("present[0].fence >= job_lock.fence", "present[0].fence > job_lock.fence"),
        ("present is None or present == (job_lock, node)", "True"),
        ("present is None or present == (job_lock, node)", "present == (job_lock, node)"),
        ("present is None or present == (job_lock, node)", "present is None"),
        ("present is not None and present[0].fence == job_lock.fence", "present is not None"),
        ("            if mine.get(job_lock.run) == job_lock.fence:\n", "            if job_lock.run in mine:\n"),
    ),
    *_of(
        "testing/memory/alerts.py",
        ("if self.documents.notifications.insert(one.id, one)]", "]"),
        ("lambda present: present.state is NotificationState.HELD", "lambda present: True"),
        (" and (kinds is None or one.kind in kinds)", ""),
        ("due[one.id] <= now and one.alert not in excluding", "one.alert not in excluding"),
        ("due[one.id] <= now and one.alert not in excluding", "due[one.id] <= now"),
        ("            due[one.id] = now + lease\n", ""),
        ("lambda present: present.claim == notification.claim", "lambda present: True"),
        ("replace(notification, claim=None)", "notification"),
        ("lambda present: present.rev == rev", "lambda present: True"),
        ("replace(record, rev=rev + 1)", "replace(record, rev=rev)"),
        ("max(record.judged, until)", "until"),
        (" or present.ended_at < one.ended_at:", ":"),
        ("present is not None and present.run == failing.run", "present is not None"),
    ),
    *_of(
        "testing/memory/access.py",
        ("lambda present: present.stamp == stamp", "lambda present: True"),
        ("lambda present: present.token_hash == old", "lambda present: True"),
        ("if user.subject and any(", "if any("),
        ("one.subject == user.subject for one in self.records.values()", "False for one in self.records.values()"),
    ),
)

LUA: tuple[Mutant, ...] = (
    *_of(
        "backends/redis/lua/rate_attempt.lua",
        ("if count < free then return 0 end", ""),
        ("if now < due then return due - now end\n", ""),
        ("if count >= free then\n  redis", "if false then\n  redis"),
        ("elseif redis.call('PTTL', KEYS[1]) < 0 then", "else"),
    ),
    *_of(
        "backends/redis/lua/rate_take.lua",
        ("if excess > 0 then return math.ceil(excess) end\n", ""),
        ("if excess > 0 then", "if excess >= 0 then"),
    ),
    *_of(
        "backends/redis/lua/rate_take_back.lua",
        (
            "if tonumber(redis.call('HGET', KEYS[1], 'count') or '0') > 0 then",
            "if true then",
        ),
        (" > 0 then redis.call('HINCRBY', KEYS[1], 'count', -1) end", " > 9 then return 0 end"),
    ),
    *_of(
        "backends/redis/lua/feed_claim.lua",
        ("if present and present ~= ARGV[1] then return 0 end\n", ""),
        ("present and present ~= ARGV[1]", "present ~= ARGV[1]"),
        ("present and present ~= ARGV[1]", "present"),
    ),
    *_of("backends/redis/lua/feed_release.lua", ("if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n", "")),
    *_of("backends/redis/lua/feed_tick.lua", ("if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end\n", "")),
    *_of("backends/redis/lua/lines_publish.lua", ("if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end\n", "")),
    *_of(
        "backends/redis/lua/stream_read.lua",
        ("if ARGV[1] == '' then return", "if false then return"),
        ("if #found == 0 or found[1][1] ~= ARGV[1] then return false end\n", ""),
        ("if #found == 0 or found[1][1] ~= ARGV[1] then", "if #found == 0 then"),
    ),
    *_of(
        "backends/redis/lua/install.lua",
        ("if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n", ""),
        ("if tonumber(redis.call('GET', KEYS[2]) or '0') > tonumber(ARGV[2]) then return 0 end\n", ""),
        ("> tonumber(ARGV[2])", ">= tonumber(ARGV[2])"),
    ),
    *_of(
        "backends/redis/lua/renew.lua",
        ("if term > tonumber(ARGV[3]) then return 'lost' end\n", ""),
        ("if term > tonumber(ARGV[3])", "if term >= tonumber(ARGV[3])"),
        ("if holder and holder ~= ARGV[1] then return 'lost' end\n", ""),
        ("if holder and holder ~= ARGV[1] then", "if holder ~= ARGV[1] then"),
        ("if holder and term == tonumber(ARGV[3])", "if term == tonumber(ARGV[3])"),
        ("holder and term == tonumber(ARGV[3]) and", "holder and"),
        (" and redis.call('GET', KEYS[3]) == ARGV[4] then", " then"),
        ("if redis.call('GET', KEYS[4]) == ARGV[3] then return 'asked' end", ""),
        ("if redis.call('GET', KEYS[4]) == ARGV[3] then", "if redis.call('GET', KEYS[4]) then"),
    ),
    *_of(
        "backends/redis/lua/resign.lua",
        ("if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n", ""),
    ),
    *_of(
        "backends/redis/lua/report.lua",
        ("if owner and owner ~= ARGV[1] then", "if false then"),
        ("owner ~= ARGV[1] then", "true then"),
        ("if not drain and ARGV[4] == '1' then", "if ARGV[4] == '1' then"),
        ("if not drain and ARGV[4] == '1' then", "if not drain then"),
        ("if drain == '1' then", "if drain then"),
    ),
    *_of(
        "backends/redis/lua/leave.lua",
        ("if redis.call('GET', KEYS[3]) == ARGV[1] then redis.call('DEL', KEYS[3]) end", "redis.call('DEL', KEYS[3])"),
        ("if redis.call('GET', KEYS[3]) == ARGV[1] then redis.call('DEL', KEYS[3]) end\n", ""),
    ),
    *_of(
        "backends/redis/lua/members.lua",
        ("if json then", "json = json or redis.call('GET', ARGV[1] .. 'node:' .. seen[1])\n  if json then"),
        (" == '1' then drain = 1 end", " then drain = 1 end"),
        ("  elseif ARGV[2] == '1' then", "  else"),
    ),
    *_of(
        "backends/redis/lua/dispatch.lua",
        ("if tonumber(redis.call('GET', KEYS[1]) or '0') > tonumber(ARGV[1]) then return 'stale' end\n", ""),
        ("> tonumber(ARGV[1]) then", ">= tonumber(ARGV[1]) then"),
        ("if redis.call('GET', KEYS[2]) ~= ARGV[2] then return 'forgotten' end\n", ""),
    ),
    *_of(
        "backends/redis/lua/take.lua",
        ("if not by or ms > tonumber(by) or", "if ms > tonumber(by) or"),
        ("not by or ms > tonumber(by) or", "not by or"),
        ("elseif tonumber(of) < term then", "elseif false then"),
        ("tonumber(of) < term", "tonumber(of) <= term"),
        (" or marks[1] or (marks[2]", " or (marks[2]"),
        (" or (marks[2] and tonumber(fence) <= tonumber(marks[2])) then", " then"),
        ("tonumber(fence) <= tonumber(marks[2])", "tonumber(fence) < tonumber(marks[2])"),
        ("(marks[2] and tonumber(fence) <= tonumber(marks[2]))", "marks[2]"),
        ("return {taken, again, dropped, old, ms}", "return {taken, again, dropped, old, 0}"),
        ("if slot ~= '' then lock = lock .. ':' .. slot end", ""),
        ("if held_run and held_run ~= run then", "if false then"),
        ("if held_run and held_run ~= run then", "if held_run ~= run then"),
        ("elseif held_run and held_fence >= fence then", "elseif false then"),
        ("held_fence >= fence", "held_fence > fence"),
        ("if again > 0 then redis.call('PEXPIRE', KEYS[1], 3600000) end\n", ""),
        ("if #taken > 0 then redis.call('PEXPIRE', KEYS[2], 3600000) end\n", ""),
    ),
    *_of(
        "backends/redis/lua/renew_locks.lua",
        ("if ARGV[i + 1] ~= '' then lock = lock .. ':' .. ARGV[i + 1] end", ""),
        ("if not held or held == mine then", "if true then"),
        ("if not held or held == mine then", "if not held then"),
        ("if not held or held == mine then", "if held == mine then"),
    ),
    *_of(
        "backends/redis/lua/release.lua",
        ("if ARGV[i + 1] ~= '' then lock = lock .. ':' .. ARGV[i + 1] end", ""),
        ("if held and string.sub(held, 1, #ARGV[i + 3] + 1) == ARGV[i + 3] .. '|' then", "if held then"),
        (
            "string.sub(held, 1, #ARGV[i + 3] + 1) == ARGV[i + 3] .. '|'",
            "string.sub(held, 1, #ARGV[i + 3]) == ARGV[i + 3]",
        ),
        ("if redis.call('HGET', KEYS[1], ARGV[i + 2]) == ARGV[i + 3] then redis.call", "if true then redis.call"),
        ("if redis.call('HGET', KEYS[1], ARGV[i + 2]) == ARGV[i + 3] then redis.call", "if false then redis.call"),
    ),
    *_of(
        "backends/redis/lua/check_rights.lua",
        ("if not redis.acl_check_cmd(unpack(words)) then", "if redis.acl_check_cmd(unpack(words)) then"),
        ("if not redis.acl_check_cmd(unpack(words)) then", "if false then"),
    ),
    *_of(
        "backends/redis/lua/forget_ended.lua",
        ("if not held[found[i] .. '|' .. found[i + 1]] then", "if true then"),
        ("held[ARGV[i] .. '|' .. ARGV[i + 1]] = true end", "held[ARGV[i]] = true end"),
    ),
    *_of(
        "backends/redis/lua/set_ttl.lua",
        ("if redis.call('PTTL', key) == -1 then", "if redis.call('PTTL', key) ~= -2 then"),
        ("if redis.call('PTTL', key) == -1 then", "if redis.call('PTTL', key) ~= nil then"),
    ),
)

WORKER: tuple[Mutant, ...] = (
    *_of(
        "worker/run_writer.py",
        ("abs(now - write.pending.created_at) < ACK_WITHIN", "True"),
        ("abs(now - write.pending.created_at) < ACK_WITHIN", "False"),
        ("                done[first[run]] = True\n", "                pass\n"),
        ("        await self._try_again(writes, done)\n", ""),
        (" and (run.id, run.fence) in fences", ""),
        ("await insert_pending_runs(self._runs, [record for _, record in pending])\n", "pass\n"),
        ("in pending])\n        await self._apply(writes, done)\n", "in pending])\n"),
        ("in pending])\n        await self._apply", "in pending])\n            await self._apply"),
    ),
    *_of(
        "worker/throughput.py",
        ("(self._slots - long)", "self._slots"),
        ("min(self._most, self._ends", "max(0, self._ends"),
        ("WEIGHT * (seconds - self._mean_s)", "0.0"),
        ("seconds if self._mean_s is None else", "seconds if True else"),
    ),
)

LATE_INSERTS: tuple[Mutant, ...] = (
    *_of(
        "leader/planner.py",
        ("self._late_inserts.capacity >= len(planned)", "True"),
        (" and pending_run.node in inserting", ""),
        ("dispatched and job.start_guard is StartGuard.REDIS and", "dispatched and"),
        (" and not job.resources", ""),
        ("self._pending_runs.ensure(records, tenure.term)", "self._pending_runs.ensure((), tenure.term)"),
        ("pending_run=pending_run if plan.run in late else None,", "pending_run=None,"),
    ),
    *_of(
        "leader/reconciler.py",
        ("        await self._pending_runs.ensure([jobs[name] for name in excluding], tenure.term)\n", ""),
    ),
    *_of(
        "leader/late_inserts.py",
        ("left > 0 and not self._at_once", "left > 0"),
        ("return self._closed or self._elector.tenure is None", "return self._closed"),
        ("return self._closed or self._elector.tenure is None", "return self._elector.tenure is None"),
        ("await self._runs.insert([run_of_pending(", "([run_of_pending("),
        ("        await self._plans.remove([batch.intent for batch in batches])\n", ""),
        # A look by `_id` before the insert only saves the insert, which `_id` would refuse.
        ("if self._clock.monotonic() - batches[0].at > FORGET_AFTER_S:", "if False:"),
        ("self._deferred -= len(self._batches.popleft().runs)", "self._batches.popleft()"),
    ),
    *_of(
        "leader/pending_runs.py",
        ("if term != self._term:", "if False:"),
        ("            self._term = term\n", ""),
        ("self._pending_runs.get(job) == (pending_run.fire, pending_run.fence)", "job in self._pending_runs"),
        ("        self._pending_runs.move_to_end(job)\n", ""),
        ("if len(self._pending_runs) > self._most:", "if False:"),
        ("            self._inserted.add(record.name, pending_run)\n", "            pass\n"),
    ),
    *_of(
        "usecases/pending_runs.py",
        (" and run_id(record.name, record.pending_run.fire) in ids", ""),
        ("may have moved on.\n    if found := await runs.get([run]):", "may have moved on.\n    if False:"),
        ("return pending_run_of(pending[0]) if pending else None", "return None"),
        ("runs.insert([pending[run] for run in missing]) if missing", "runs.insert([]) if missing"),
    ),
    *_of(
        "usecases/runs.py",
        ("await insert_pending_runs(self._runs, await pending_among(self._jobs, absent))", "pass"),
    ),
)

LOOK_AHEAD: tuple[Mutant, ...] = (
    *_of(
        "domain/planning.py",
        ("not now < fire <= until", "not fire <= until"),
        ("not now < fire <= until", "not now < fire"),
        ("if has_open_run and job.overlap is not Overlap.ALLOW:", "if False:"),
        ("if has_open_run and job.overlap is not Overlap.ALLOW:", "if has_open_run:"),
        ("max(pending_run.at, pending_run.fire) + ACK_WITHIN", "pending_run.at + ACK_WITHIN"),
    ),
    *_of(
        "domain/placement.py",
        ("member.capacity + early.get(node, 0)", "member.capacity"),
        ("room = self._free_early if early else self._free\n        heap", "room = self._free\n        heap"),
        ("        self._free_early[node] -= 1\n", ""),
        (
            "        if not early:\n            self._free[node] -= 1",
            "        if True:\n            self._free[node] -= 1",
        ),
    ),
    *_of(
        "domain/cluster.py",
        ("return 0 if early is None else", "early = early or 0\n        return"),
    ),
    *_of(
        "leader/dispatcher.py",
        ("if self._clock.monotonic() - read_at >= START_BY_S:", "if False:"),
    ),
    *_of(
        # `among` leaves out jobs that wait for their turn, and `decide_all` ends without capacity, only to save work.
        "leader/look_ahead.py",
        ("placed = fleet.place(needs_of(record.job), early=True)", "placed = fleet.place(needs_of(record.job))"),
        ("        self.placed(placed.node, decision.fire)\n", ""),
        ("self._instants[0][0] <= now", "False"),
    ),
    *_of(
        "leader/planner.py",
        ("not_before=pending_run.fire if plan.early else None,", ""),
        ("if early and not self._out_of_capacity:", "if early:"),
        (
            "self._late_inserts.defer(intent.id, tenure.term, deferred, batch[-1].early)",
            "self._late_inserts.defer(intent.id, tenure.term, deferred)",
        ),
    ),
    *_of(
        "leader/reconciler.py",
        ("early = run.kind in SCHEDULED and run.fire_at > now", "early = False"),
        ("not_before=run.fire_at if early else None,", ""),
        ("if isinstance(placed, NoNode) and early:", "if False:"),
    ),
    *_of(
        "domain/transitions.py",
        ("ACK_WITHIN + early", "ACK_WITHIN"),
    ),
    *_of(
        "worker/local_queue.py",
        ("if first is None or first > now:", "if first is None:"),
        ("present.assignment.fence >= queued.assignment.fence", "False"),
        (" and queued.assignment.fence == fence", ""),
        ("one.start_by < monotonic", "False"),
        ("return self._runs.get(queued.assignment.run) is queued", "return queued.assignment.run in self._runs"),
        ("(queued.instant, -queued.assignment.job.priority, ", "(queued.instant, "),
    ),
    *_of(
        # A node that takes no work has given back what waits, in its next step at the latest. So that `_may_start`
        # asks for it, and that a drain does not wait for the step, makes no difference that lasts.
        "worker/worker.py",
        ("early = assignment.not_before is not None and assignment.not_before > self._clock.now()", "early = False"),
        ("if early or self._occupied >= self._slots:", "if early:"),
        ("room = self._occupied < self._slots and", "room ="),
        ("elif self._clock.monotonic() > active.start_by:", "elif False:"),
        ("self._returns.let_go(self._waiting.remove_due(self._clock.now()), NO_SLOT)", "pass"),
        ("return held + [queued.lease(self._node) for queued in waiting]", "return held"),
    ),
    *_of(
        "worker/cancellations.py",
        ("if run in cancelled or fence <= withdrawn.get(run, 0)}", "if fence <= withdrawn.get(run, 0)}"),
        ("if run in cancelled or fence <= withdrawn.get(run, 0)}", "if run in cancelled}"),
        ("fence <= withdrawn.get(run, 0)", "run in withdrawn"),
        ("return min(POLL_S, max(SHORTEST_PAUSE_S, (following - soon).total_seconds()))", "return POLL_S"),
    ),
    *_of(
        "domain/permits.py",
        # is_stale
        ("return run.fence > permit.fence", "return True"),
        ("    if run.fence != permit.fence:\n        return run.fence > permit.fence\n", ""),
        ("return run.state not in (RunState.DISPATCHED, RunState.RUNNING)", "return run.state is not RunState.RUNNING"),
        ("return run.state not in (RunState.DISPATCHED, RunState.RUNNING)", "return False"),
    ),
    *_of(
        "worker/worker.py",
        ("            if left and active.permits.uses:\n", "            if active.permits.uses:\n"),
        ("            self._stop(active, AttemptResult(Outcome.DRAINED, error=UNRENEWED))\n", "            pass\n"),
    ),
    *_of(
        "worker/admission.py",
        ("        if answer.granted:\n", "        if True:\n"),
    ),
    *_of(
        "worker/permits.py",
        ("        if not self._spooled():\n", "        if True:\n"),
        ("if answers[k].granted and position < len(one.uses)]", "if position < len(one.uses)]"),
    ),
    *_of(
        "worker/returns.py",
        (
            "*(self._recorder.release(one.job_lock, self._ahead()) for one in assignments)",
            "",
        ),
        (
            "            if why is not None:\n                await self.give_back",
            "            if True:\n                await self.give_back",
        ),
    ),
    *_of(
        "usecases/edit.py",
        ("run.kind in SCHEDULED and run.fire_at > soon", "run.kind in SCHEDULED and run.fire_at > now"),
        ("run.state is RunState.DISPATCHED and run not in early]", "run.state is RunState.DISPATCHED]"),
        ("                await self._withdraw([run for run in old if run.id in applied])\n", ""),
        ("    if (held := version_of(changed).held) is not None:\n        return held\n", ""),
        (
            "    if _same_instants(changed.job, edit.record.job):\n",
            "    if False:\n",
        ),
        ("if first is None or first > run.fire_at:", "if first is None:"),
        ("if first is None or first > run.fire_at:", "if True:"),
        ("first_fire(changed.job, now, before)", "first_fire(changed.job, now)"),
        ("if planned is None or planned.fire <= now or", "if True or"),
    ),
)

CHAINS: tuple[Mutant, ...] = (
    *_of(
        "domain/following.py",
        # knows: by an end that waits, and by one that has left
        ("return run in self.recent or any(", "return any("),
        ("return run in self.recent or any(end.run == run for end in self.arrived)", "return run in self.recent"),
        # arrive
        ("recent=_left(join, (*join.arrived, end), kept)", "recent=join.recent"),
        ("kept = () if complete and join.chain is None else arrived", "kept = () if complete else arrived"),
        ("kept = () if complete and join.chain is None else arrived", "kept = arrived"),
        # expire
        ("recent=_left(join, over, kept)", "recent=join.recent"),
        # forget
        ("for run in join.recent if run in marked)", "for run in join.recent)"),
        ("replayed = any(original_id(end.run) != end.run for end in ends)", "replayed = False"),
        ('all(upstream[end.job].on == "failed" for end in unmet)', "True"),
        ("if link.depth > MOST_LINKS:", "if False:"),
    ),
    *_of(
        "leader/chain_follower.py",
        ("if end.run not in marked or join.knows(end.run):", "if join.knows(end.run):"),
        ("[end.run for end in ends if end.run not in unwritten]", "[end.run for end in ends]"),
        ("        await self._insert(runs)\n        await self._finish_all", "        await self._finish_all"),
        ("of_chain = all(one.job in self._descendants[root] for one in record.job.after)", "of_chain = False"),
        ("of_chain = all(one.job in self._descendants[root] for one in record.job.after)", "of_chain = True"),
    ),
    *_of(
        "domain/upstream_values.py",
        ("one if name in own else _mapped(one, value)", "_mapped(one, value)"),
        ("key=len, reverse=True)", "key=len)"),
    ),
)

SHADOW: tuple[Mutant, ...] = (
    *_of(
        "domain/recovery.py",
        # never_starts
        ("    if run.state is not RunState.RETRYING:\n        return None\n    reason: str", "    reason: str"),
        ("if run.kind is Kind.AFTER and run.job_ver < record.ver:", "if run.kind is Kind.AFTER:"),
        ("if run.kind is Kind.AFTER and run.job_ver < record.ver:", "if run.job_ver < record.ver:"),
        ("if reason is None and record.job.is_shadow and not", "if reason is None and not"),
        ("not (run.is_requested or _has_started(run))", "not _has_started(run)"),
        ("not (run.is_requested or _has_started(run))", "not run.is_requested"),
        ("    if (never := never_starts(run, record)) is not None:\n        return never\n", ""),
    ),
    *_of(
        "domain/run.py",
        ("return self.kind is not Kind.AFTER and self.kind not in SCHEDULED", "return self.kind not in SCHEDULED"),
        ("return self.kind is not Kind.AFTER and self.kind not in SCHEDULED", "return self.kind is not Kind.AFTER"),
        ("return fire_of(parent) is None and not follows(parent)", "return fire_of(parent) is None"),
        ("return fire_of(parent) is None and not follows(parent)", "return not follows(parent)"),
    ),
    *_of("domain/chain.py", ('return _MARK in run and "~" not in run', "return _MARK in run")),
    *_of(
        "domain/splitting.py",
        ("elif held is not None and ended.counts", "elif ended.counts"),
        ("elif held is not None and ended.counts.get(RunState.SKIPPED, 0) == ended.failed:", "elif held is not None:"),
    ),
    *_of(
        "leader/splitter.py",
        (
            "            if (skip := never_starts(run, record)) is not None:\n",
            "            if (skip := None) is not None:\n",
        ),
        ("SHADOWED if record.job.is_shadow and not run.is_requested else None", "None"),
        ("if record.job.is_shadow and not run.is_requested else None", "if record.job.is_shadow else None"),
    ),
    *_of(
        "domain/backfill.py",
        ("    if record.job.is_shadow:\n        return JOB_IN_SHADOW_MODE\n", ""),
    ),
    *_of("usecases/backfills.py", ("        if record.job.is_shadow:\n", "        if False:\n")),
)

GUARDS: tuple[Mutant, ...] = (
    *_of(
        "usecases/edit.py",
        ("                    guard(record)\n", "                    pass\n"),
        (
            "                if record is not None and record.deleted_at is None:\n",
            "                if record is not None:\n",
        ),
        ("            guard(record)\n            return deleted", "            return deleted"),
    ),
    *_of(
        "domain/ownership.py",
        ("if theirs not in (None, self.owner):", "if False:"),
        ("if theirs not in (None, self.owner):", "if theirs != self.owner:"),
        ("        if OWNER not in record.job.labels:\n", "        if False:\n"),
        ("        self.guard(record)\n", ""),
    ),
    *_of(
        "usecases/people.py",
        ("(user for user in known if not user.enabled)", "(user for user in known[:1] if not user.enabled)"),
        ("            if await self._users.get(name) is not None:\n", "            if False:\n"),
        ("await self._kept_grant(session) or session.grant", "session.grant"),
        ("            await self._keep_grant(session, error.refresh_token)\n", ""),
        ("            await self._keep_grant(session, identity.refresh_token)\n", ""),
        ('hashed(f"grant {session.id} {session.grant}")', 'hashed(f"grant {session.id}")'),
        # Without the session it would be the same, because no two have the same sealed token.
    ),
    *_of(
        "leader/notification_grouper.py",
        ("after = self._places.pop(record.name, None)", "after = None"),
        ("        if not held and after is not None:\n", "        if False:\n"),
        ("if len(held) == MOST_MEMBERS:", "if held:"),
        ("quiet is not None and quiet.active(now)", "quiet is not None"),
        ("quiet is not None and quiet.active(now)", "False"),
    ),
)

REFUSED: tuple[Mutant, ...] = (
    # What leaders, workers and people do when a compare-and-set was refused.
    *_of(
        # `pause_after` looks at the stored runs, so asking it about a change that was refused makes no difference.
        "leader/reconciler.py",
        ("[where for run, where in this.placed.items() if run in applied]", "[*this.placed.values()]"),
        ("([change for change in this.changes if change.run in applied])", "(this.changes)"),
    ),
    *_of(
        "leader/planner.py",
        ("for plan in batch if plan.record.name in moved}", "for plan in batch}"),
        ("for run, plan in planned.items() if run in late or run in fresh]", "for run, plan in planned.items()]"),
    ),
    *_of(
        # The comparison of the terms only excludes jobs that are gone, and those are not found.
        "leader/plan_recovery.py",
        ("if others and any(record.term > term for record in await jobs.get(others)):", "if False:"),
        ("    inserted = await insert_pending_runs(runs, fenced)\n", "    inserted = [0]\n"),
    ),
    *_of(
        "leader/splitter.py",
        *(
            (
                f"        if not await self._runs.apply([change]):\n            return\n        {following}",
                f"        await self._runs.apply([change])\n        {following}",
            )
            for following in ('log.info("run summed up"', "begun = replace(")
        ),
    ),
    *_of(
        "leader/threshold_monitor.py",
        ("and await self._alerts.cross(found):", "and (await self._alerts.cross(found) or True):"),
    ),
    *_of(
        "leader/cursor_corrector.py",
        ("            if claimed is None:\n", "            if False:\n"),
        ("self._right = claimed", "self._right = True"),
        ("if self._claimed != tenure.term or identity", "if identity"),
        ("            if count is None:\n", "            if False:\n"),
    ),
    *_of(
        "leader/chain_follower.py",
        (
            "                if not await self._chains.write_join(join):\n                    return Arrived",
            "                if not (await self._chains.write_join(join) or True):\n                    return Arrived",
        ),
        (
            "        if changed:\n            if not await self._chains.write_join(join):\n",
            "        if changed:\n            if not (await self._chains.write_join(join) or True):\n",
        ),
        ("and await self._chains.write_join(expired):", "and (await self._chains.write_join(expired) or True):"),
    ),
    *_of(
        "leader/elector.py",
        (
            "if not await self._election.acquire(holder, self._timings.leader_ttl):",
            "if not (await self._election.acquire(holder, self._timings.leader_ttl) or True):",
        ),
        ("        if not installed:\n", "        if False:\n"),
        ("        if answer is Renewal.LOST:\n", "        if False:\n"),
        ("        if high is None:\n", "        if False:\n"),
        ("            if not self._outdated:\n", "            if True:\n"),
        ("self._abstain_until = self._clock.monotonic() + self._timings.failover_check", "pass"),
    ),
    *_of(
        "leader/backfiller.py",
        ("reached, now + page.pause):", "reached, now + page.pause) or True:"),
        ("BackfillState.DONE, self._clock.now()):", "BackfillState.DONE, self._clock.now()) and False:"),
        ("if present is None or present.state is BackfillState.CANCELLED:", "if True:"),
        ("if present is None or present.state is BackfillState.CANCELLED:", "if present is None:"),
    ),
    *_of("leader/notification_grouper.py", ("            if not inserted:\n", "            if False:\n")),
    *_of(
        "worker/recorder.py",
        ("late = [finish.late for finish, won in zip(finishes, results, strict=True) if not won]", "late = []"),
        ("zip(finishes, results, strict=True) if not won]", "zip(finishes, results, strict=True)]"),
        ("zip(finishes, results, strict=True) if won]", "zip(finishes, results, strict=True)]"),
    ),
    *_of(
        "usecases/accounts.py",
        (
            "await self._users.replace(after, before.stamp):",
            "(await self._users.replace(after, before.stamp) or True):",
        ),
    ),
    *_of(
        "usecases/alerts.py",
        ("await self._alerts.replace(after, before.rev):", "(await self._alerts.replace(after, before.rev) or True):"),
    ),
    *_of(
        "usecases/job_breakers.py",
        ("await self._breakers.replace(state, changed):", "(await self._breakers.replace(state, changed) or True):"),
        ("closed(state, self._clock.now())):", "closed(state, self._clock.now())) or True:"),
    ),
    *_of(
        "usecases/calendars.py",
        (
            "            if made is not None:\n",
            "            made = made or await self._record(calendar.name)\n            if True:\n",
        ),
    ),
    *_of(
        "usecases/people.py",
        (
            "if await self._users.replace(changed, known[0].stamp):",
            "if await self._users.replace(changed, known[0].stamp) or True:",
        ),
        (
            "            if await self._users.create(made):\n",
            "            if await self._users.create(made) or True:\n",
        ),
    ),
    *_of(
        "usecases/logins.py",
        ("hashed(random), hashed(following)):", "hashed(random), hashed(following)) and False:"),
    ),
    *_of(
        "usecases/edit.py",
        (
            "if await self._jobs.replace(edit.changed, edit.record.rev):",
            "if await self._jobs.replace(edit.changed, edit.record.rev) or True:",
        ),
    ),
)

MUTANTS = MEMORY + LUA + MONGO + WORKER + LATE_INSERTS + LOOK_AHEAD + CHAINS + SHADOW + GUARDS + REFUSED
