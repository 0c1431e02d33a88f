"""Declarations of a job with any one value replaced: the service takes them or says in one line why not."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from fleet.errors import FleetError
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from support.plane.fuzz_requests import JOB, ODD_VALUES, places

# Numbers that no machine has the memory for, should something be made for each.
HUGE = (10**9, 2**31, 2**40, 2**63 - 1, 2**64, 10**400)
PLACES = places(json.loads(JOB.to_json()))


def declare(job: Any) -> None:
    caller = ps_pb2.Caller(worker=0, incarnation=1)
    header = ps_pb2.DeclareRequest.Header(caller=caller, job=json.dumps(job))
    Service().handle("Declare", header, ())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(len(PLACES)), ids=lambda number: f"{number}-{PLACES[number][1]}")
def test_a_value_is_taken_or_refused(number: int) -> None:
    for value in (*ODD_VALUES, *HUGE):
        job = json.loads(JOB.to_json())
        holder, key = places(job)[number]
        holder[key] = value
        try:
            declare(job)
        except FleetError as error:
            assert "\n" not in str(error), str(error)  # noqa: PT017 - one of many, and most raise


def test_a_declaration_without_one_of_its_values_is_taken_or_refused() -> None:
    for number in range(len(PLACES)):
        job = json.loads(JOB.to_json())
        holder, key = places(job)[number]
        del holder[key]
        with suppress(FleetError):
            declare(job)
