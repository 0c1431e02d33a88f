"""File names for tables and parameters, whose own names are any text."""

import hashlib
import re
from urllib.parse import quote

MAX_LENGTH = 120
_KEPT = 90


def is_of_server(file_name: str, server: int, num_servers: int) -> bool:
    """Whether a file of a checkpoint or an inference copy has the name of one that this server writes."""
    who = rf"(server|part)-{server:03}-of-{num_servers:03}"
    kinds = r"(\.(piece|changed)-\d+)?\.(safetensors|keys\.npy|values\.npy)|\.\d+-\d+\.run"
    return re.fullmatch(rf".*\.{who}({kinds})", file_name) is not None


def is_of_others(file_name: str, num_servers: int) -> bool:
    """Whether it has the name of a file that a server writes when there is another number of them."""
    found = re.search(r"\.(server|part)-\d+-of-(\d+)\.", file_name)
    return found is not None and int(found[2]) != num_servers


def file_name_of(name: str) -> str:
    """A file name for `name`: safe, at most 120 characters, and another one for every other name.

    Letters, digits, "_", "-" and inner dots stay, the rest is percent-encoded. What would be longer is cut, and "~" and
    a hash make it distinct; the true name stands in the manifest, so nobody needs to decode it.

    >>> file_name_of("ads/user id")
    'ads%2Fuser%20id'
    """
    encoded = quote(name, safe="", errors="surrogatepass").replace("~", "%7E")
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    if 0 < len(encoded) <= MAX_LENGTH:
        return encoded
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{encoded[:_KEPT]}~{digest[:24]}"
