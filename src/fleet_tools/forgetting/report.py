"""What was forgotten, where it was searched for, and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class SearchedPlace:
    """A folder with everything below it."""

    folder: str
    files: int = 0
    size_bytes: int = 0
    rewritten: int = 0
    """Files that were written anew, or removed."""
    found: list[str] = field(default_factory=list)
    """What was found, in words; at most 20 of them."""
    num_found: int = 0

    def note(self, what: str) -> None:
        """One more was found."""
        self.num_found += 1
        if len(self.found) < 20:
            self.found.append(what)


@dataclass
class ForgetReport:
    """What `fleet.forget` has done. Worker 0's has the places; those of other workers have the numbers alone."""

    ids: int
    """Distinct ids that were asked for; not all need have had a row."""
    rows: int = 0
    """Rows that servers had, in all tables."""
    waiting: int = 0
    """Ids that servers counted, which had no row yet."""
    seconds: float = 0.0
    places: list[SearchedPlace] = field(default_factory=list)
    searched_rows: int = 0
    """Rows whose bytes were searched."""
    unsearchable_rows: int = 0
    """Rows whose bytes tell nothing: zeros, a width of one, or the same as another."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not any(place.num_found for place in self.places)

    def __str__(self) -> str:
        lines = [
            f"forgotten: {self.ids} ids, {self.rows} rows, {self.waiting} that waited for one; searched for "
            f"{self.ids} keys and the bytes of {self.searched_rows} rows ({self.unsearchable_rows} tell nothing)"
        ]
        for place in self.places:
            what = f"{place.num_found} found, first {place.found[0]}" if place.found else "nothing found"
            size = f"{place.files} files, {place.size_bytes / 1e6:,.1f} MB, {place.rewritten} rewritten"
            lines.append(f"{place.folder}: {size}: {what}")
        return "\n".join(lines)
