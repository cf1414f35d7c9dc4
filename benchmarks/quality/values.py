"""Names, numbers and dates for the documents, by kind. A document has a value twice only if 200 tries make no other
value.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable


def _words(text: str) -> list[str]:
    return text.split()


_FIRST = _words(
    "Agnes Bertram Cecilia Dominic Edith Florian Greta Harald Ines Jasper Klara Leopold Mirjam Nestor Odette Pascal "
    "Quirin Rosalind Selma Tobias Ursula Viktor Wanda Xaver Yvonne Zeno"
)
_LAST = _words(
    "Aldermann Birchwood Castellan Dunmore Eriksen Fairbrother Grantley Holloway Ivarsson Jorgensen Kestrel Lindholm "
    "Marchetti Norwood Oakeshott Pemberton Quillfeather Ravenscroft Silvestri Thornbury Underhill Vandermeer Whitlock"
)
_TOWNS = _words(
    "Ashbourne Bellhaven Carrowick Deepmoor Eastlea Fallowfield Glenmarsh Highcombe Inverlay Kingsmere Longbrook "
    "Millhaven Northwick Ottersby Pinecliff Redwater Stonebridge Thistleby Upperton Westholm"
)
_TRADES = _words(
    "Carpenter Baker Surveyor Optician Welder Librarian Gardener Plumber Bookbinder Midwife Pharmacist Electrician"
)
_FIRMS = ("Works", "and Sons", "Logistics", "Mutual", "Engineering", "Trading", "Services", "Partners")
_MONTHS = _words("January February March April May June July August September October November December")
_WAYS = ("Lane", "Street", "Road", "Square", "Avenue", "Quay")
_FLUIDS = ("distilled water", "white spirit", "diluted vinegar", "paraffin oil", "rubbing alcohol")
_TRIES = 200


class Values:
    """Values for one document, from the random numbers of `chance`."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._used: set[str] = set()

    def make(self, slot: str) -> str:
        """Returns a value for a slot such as `amount` or `person2`. The digit only distinguishes values of a kind."""
        maker: Callable[[], str] = getattr(self, "_" + slot.rstrip(string.digits))
        for _ in range(_TRIES):
            value = maker()
            if value not in self._used:
                break
        self._used.add(value)
        return value

    def _digits(self, count: int) -> str:
        return "".join(self._chance.choices(string.digits, k=count))

    def _number(self, least: int, most: int) -> str:
        return f"{self._chance.randint(least, most):,}"

    def _amount(self) -> str:
        return self._number(104, 9890)

    def _small(self) -> str:
        return self._number(11, 95)

    def _count(self) -> str:
        return self._number(2, 9)

    def _days(self) -> str:
        return self._number(2, 10)

    def _degrees(self) -> str:
        return self._number(25, 95)

    def _decibel(self) -> str:
        return self._number(71, 98)

    def _volts(self) -> str:
        return self._chance.choice(["110", "208", "230", "400", "415", "480"])

    def _percent(self) -> str:
        return f"{self._chance.randint(0, 9)}.{self._chance.randint(1, 9)}"

    def _cents(self) -> str:
        return f"{self._chance.randint(0, 79)}.{self._chance.randint(11, 99)}"

    def _minutes(self) -> str:
        return f"{self._chance.randint(6, 9)}:{self._chance.randint(10, 59)}.{self._chance.randint(1, 9)}"

    def _time(self) -> str:
        return f"{self._chance.randint(7, 11)}:{self._chance.randrange(0, 60, 5):02}"

    def _evening(self) -> str:
        return f"{self._chance.randint(16, 22)}:{self._chance.randrange(0, 60, 5):02}"

    def _date(self) -> str:
        return f"{self._chance.randint(1, 28)} {self._chance.choice(_MONTHS)} {self._chance.randint(2019, 2027)}"

    def _person(self) -> str:
        return f"{self._chance.choice(_FIRST)} {self._chance.choice(_LAST)}"

    def _company(self) -> str:
        return f"{self._chance.choice(_LAST)} {self._chance.choice(_FIRMS)}"

    def _city(self) -> str:
        return self._chance.choice(_TOWNS)

    def _street(self) -> str:
        return f"{self._chance.randint(2, 180)} {self._chance.choice(_LAST)} {self._chance.choice(_WAYS)}"

    def _code(self) -> str:
        return f"{''.join(self._chance.choices('ABCDEFGHKLMNPRTUVWX', k=2))}-{self._digits(4)}"

    def _phone(self) -> str:
        return f"0{self._digits(3)} {self._digits(3)} {self._digits(3)}"

    def _account(self) -> str:
        return f"NX{self._digits(2)} {self._digits(4)} {self._digits(4)} {self._digits(4)}"

    def _trade(self) -> str:
        return self._chance.choice(_TRADES)

    def _fluid(self) -> str:
        return self._chance.choice(_FLUIDS)
