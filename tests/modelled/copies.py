"""Copies of servers on other machines, the terms that say who is what, and the machines that are lost."""

from __future__ import annotations

from collections.abc import Iterator

from modelled.checker import Action
from modelled.servers import made, waits_for_copy
from modelled.state import Entry, Line, Node, Size, State, Term, in_rounds, nothing, spent, with_line, with_node

Step = tuple[Action, State]
BURN, DOUBT = 2, 3
"""Their places in the budget."""
BURNS = "machine {1} of server {0} is lost, with its disk"
DOUBTED = "the launchers give up server {0} on machine {1}, which lives, and decide term {2}"
FILLS = "the copy of server {0} begins with its rows"
PULLS = "the copy of server {0} writes a record down"
LEARNS = "machine {1} of server {0} learns of term {2}"
HEARS_COPY = "server {0} hears what its copy has"
NONE = 2


def steps(size: Size, state: State) -> Iterator[Step]:
    """Everything that happens to copies and terms."""
    newest = len(state.terms) - 1
    for number, line in enumerate(state.lines):
        for where, node in enumerate(line.nodes):
            if node.is_there and node.term < newest:
                yield _learning(size, state, number, where)
            if node.is_there and state.budget[BURN] and number in size.copied:
                burnt = with_node(line, where, Node(is_there=False, entries=nothing(size)))
                yield (BURNS, number, where), spent(with_line(state, number, burnt), BURN)
        if number in size.copied:
            yield from _decide(size, state, number, line)
        if line.copy != NONE and line.nodes[line.copy].is_there:
            yield from _follow(state, number, line, is_kept=in_rounds(size))


def _learning(size: Size, state: State, number: int, where: int) -> Step:
    newest, line = len(state.terms) - 1, state.lines[number]
    learned = with_line(state, number, _learned(line, where, number, state.terms, nothing(size)))
    return (LEARNS, number, where, newest), learned


def _learned(line: Line, where: int, number: int, terms: tuple[Term, ...], nothing: tuple[Entry, ...]) -> Line:
    """A machine goes by the newest term: a server that was given up ends, a copy may be the server now."""
    newest, node = terms[-1], line.nodes[where]._replace(term=len(terms) - 1)
    if where == line.copy:
        if newest.servers[number] == where:
            return with_node(line, where, node)._replace(copy=NONE, is_filled=False, note=0)
        return with_node(line, where, node)
    if newest.servers[number] != where:
        return with_node(line, where, Node(is_there=False, entries=nothing))
    if line.copy == NONE or not line.is_filled:
        node = node._replace(has_copy=False, stream=(), pulled=0)
    return with_node(line, where, node)


def _decide(size: Size, state: State, number: int, line: Line) -> Iterator[Step]:
    """What the meeting point of the launchers decides; every launcher has written it down before it is used."""
    newest, decided = state.terms[-1], len(state.terms)
    server, copy = newest.servers[number], newest.copies[number]
    is_server_there = line.nodes[server].is_there
    if (begun := _begun(size, state, number, line)) is not None:
        yield begun
    if line.copy != NONE and not line.nodes[line.copy].is_there:
        after = with_line(state, number, line._replace(copy=NONE, is_filled=False, note=0))
        told = "term {1} is decided, as the copy of server {0} is gone"
        yield (told, number, decided), _with_term(after, number, newest, server, NONE)
    elif copy == NONE and line.note == decided:
        told = "term {1} is decided, which lists the copy of server {0}"
        yield (told, number, decided), _with_term(state, number, newest, server, line.copy)
    if size.broken == "promote a copy that is not listed" and line.copy != NONE and line.copy != server:
        copy = line.copy
    if copy != NONE and line.nodes[copy].is_there:
        after = _with_term(state, number, newest, copy, NONE)
        if not is_server_there:
            told = "term {2} is decided: machine {1} is server {0} now"
            yield (told, number, copy, decided), after
        elif state.budget[DOUBT]:
            yield (DOUBTED, number, server, decided), spent(after, DOUBT)
    elif not is_server_there and (line.copy == NONE or line.note != decided) and not state.is_lost:
        yield ("the job ends: server {0} is lost, and has no copy that is whole", number), state._replace(is_lost=True)


def _begun(size: Size, state: State, number: int, line: Line) -> Step | None:
    newest = state.terms[-1]
    server = newest.servers[number]
    is_alone = line.nodes[server].is_there and not line.nodes[1 - server].is_there
    if number not in size.copied or line.copy != NONE or newest.copies[number] != NONE or not is_alone:
        return None
    begun = Node(term=len(state.terms) - 1, entries=nothing(size))
    copied = with_node(line, 1 - server, begun)._replace(copy=1 - server, is_filled=False, note=0)
    return ("a copy of server {0} begins on machine {1}", number, 1 - server), with_line(state, number, copied)


def _with_term(state: State, number: int, newest: Term, server: int, copy: int) -> State:
    servers, copies = list(newest.servers), list(newest.copies)
    if server != servers[number]:
        state = with_line(state, number, state.lines[number]._replace(is_promoted=True))
    servers[number], copies[number] = server, copy
    return state._replace(terms=(*state.terms, Term(tuple(servers), tuple(copies))))


def _heard(state: State, number: int, line: Line, where: int) -> Step:
    server = line.nodes[where]
    known = server._replace(stream=server.stream[server.pulled :], pulled=0)
    return (HEARS_COPY, number), with_line(state, number, with_node(line, where, known))


def at_once(size: Size, state: State) -> Step | None:
    """What may as well happen at once, for all that is possible before it is possible behind it.

    A copy begins and is filled, it gets records while nobody waits for it, or while nothing can be lost any more, and
    its server hears what it has. A copy that is none in its term, or whose server goes by another, learns of one.
    """
    newest = len(state.terms) - 1
    for number, line in enumerate(state.lines):
        if (begun := _begun(size, state, number, line)) is not None:
            return begun
        if line.copy == NONE or not line.nodes[line.copy].is_there:
            continue
        term = line.nodes[line.copy].term
        where = state.terms[term].servers[number]
        server = line.nodes[where]
        if where == line.copy or not server.is_there or server.term != term:
            if term < newest and state.terms[newest].servers[number] != line.copy:
                return _learning(size, state, number, line.copy)
            continue
        can_be_lost = state.budget[BURN] or state.budget[DOUBT] or state.terms[newest].servers[number] != where
        is_awaited = waits_for_copy(state, number, server) and can_be_lost
        for step in _follow(state, number, line, is_kept=in_rounds(size)):
            if step[0][0] in (FILLS, HEARS_COPY) or (step[0][0] == PULLS and not is_awaited):
                return step
    return None


def _follow(state: State, number: int, line: Line, *, is_kept: bool) -> Iterator[Step]:
    """A copy asks its server for what it lacks. Both must know the same term."""
    copy = line.nodes[line.copy]
    where = state.terms[copy.term].servers[number]
    server = line.nodes[where]
    if where == line.copy or not server.is_there or server.term != copy.term:
        return
    if not line.is_filled:
        server = server._replace(has_copy=True, stream=(), pulled=0)
        copy = copy._replace(entries=server.entries, version=server.version)
        copy = copy._replace(collected=server.collected) if is_kept else copy
        after = with_node(with_node(line, where, server), line.copy, copy)._replace(is_filled=True)
        yield (FILLS, number), with_line(state, number, after)
        return
    if server.pulled < len(server.stream):
        after = with_node(line, line.copy, made(copy, server.stream[server.pulled]))
        after = with_node(after, where, server._replace(pulled=server.pulled + 1))
        yield (PULLS, number), with_line(state, number, after)
    if server.pulled:
        yield _heard(state, number, line, where)
    promise = server.term + 1
    is_listed = state.terms[server.term].copies[number] != NONE
    if not server.stream and not is_listed and (server.promised, line.note) != (promise, promise):
        after = with_node(line, where, server._replace(promised=promise))._replace(note=promise)
        told = "server {0} tells its copy that it is whole, in term {1}"
        yield (told, number, server.term), with_line(state, number, after)
