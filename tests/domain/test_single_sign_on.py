"""Groups and their roles, and the names of people."""

from __future__ import annotations

from typing import Any

import pytest

from cronflow.domain.access import Role
from cronflow.domain.errors import InvalidInput
from cronflow.domain.single_sign_on import (
    Rights,
    SignInRefused,
    groups_in,
    parse_group_role,
    person_name,
    rights_of,
)

TABLE = [
    parse_group_role(text)
    for text in (
        "all=viewer",
        "ops = operator",
        "payroll=editor+shell:payroll-* wages",
        "tax=editor+shell+secrets:tax-*",
        "dev=editor+secrets",
        "CN=Admins=admin",
    )
]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["all", "ops"], Rights(role=Role.OPERATOR)),
        (["ops", "CN=Admins", "payroll"], Rights(role=Role.ADMIN)),
        (["payroll"], Rights(role=Role.EDITOR, jobs=("payroll-*", "wages"), allow_shell=True)),
        (["payroll", "tax"], Rights(role=Role.EDITOR, jobs=("payroll-*", "wages", "tax-*"), allow_shell=True)),
        (["payroll", "dev"], Rights(role=Role.EDITOR)),
        (["Ops", "admins"], None),
        ([], None),
    ],
    ids=str,
)
def test_the_highest_role_wins_and_rights_of_editors_do_not_spread(groups: list[str], expected: Rights | None) -> None:
    assert rights_of(groups, TABLE) == expected


def test_what_is_read_is_shown_as_it_is_written() -> None:
    for text in ("all=viewer", "payroll=editor+shell:payroll-* wages", "CN=Admins=admin"):
        assert str(parse_group_role(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("admins", "does not give a group one of the roles"),
        ("=admin", "does not give a group"),
        ("a=boss", "viewer, operator, editor, admin"),
        ("a=editor+root", "'root' is not a right"),
        ("a=admin:x-*", "jobs cannot limit the role admin"),
        ("a=viewer:x-*", "jobs cannot limit the role viewer"),
        ("a=operator+shell", "is a right of editors"),
        ("a=editor:", "matches no job"),
        ("a=editor:X$", "is not a pattern"),
    ],
)
def test_a_mistake_in_the_table_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message.replace("$", ".")):
        parse_group_role(text)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"groups": ["a", 5, "", "b"]}, ("a", "b")),
        ({"groups": "a"}, ("a",)),
        ({"groups": {"a": True}}, None),
        ({}, None),
        ({"realm": {"groups": ["a"]}}, None),
    ],
    ids=str,
)
def test_groups_are_read_leniently_and_missing_ones_are_none(
    claims: dict[str, Any], expected: tuple[str, ...] | None
) -> None:
    assert groups_in(claims, "groups") == expected


def test_groups_may_be_at_a_path_or_under_a_name_with_dots() -> None:
    assert groups_in({"realm": {"groups": ["a"]}}, "realm.groups") == ("a",)
    assert groups_in({"https://x.example/groups": ["a"]}, "https://x.example/groups") == ("a",)


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "Ada", "sub": "1"}, "oidc:ada"),
        ({"preferred_username": "EXAMPLE\\ada", "email": "ada@example.com", "sub": "1"}, "oidc:ada@example.com"),
        ({"email": "ada@example.com", "email_verified": False, "sub": "1"}, "oidc:1"),
        ({"preferred_username": "ada\x1b[31m", "sub": "u1"}, "oidc:u1"),
    ],
    ids=str,
)
def test_a_name_has_a_prefix_and_no_odd_characters(claims: dict[str, Any], name: str) -> None:
    assert person_name(claims) == name
    with pytest.raises(SignInRefused):
        person_name({"sub": "ä" * 5})
