# SPDX-License-Identifier: Apache-2.0
"""Object stores of Python: the protocol, obstore, fsspec, and what the extension
calls."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import pathlib
import posixpath
import struct
import traceback
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

from ._errors import (
    AlreadyExists,
    Error,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)


# A URL, a store of obstore, (a filesystem of fsspec, folder), or an ObjectStore.
Target: TypeAlias = Any


class ObjectInfo(NamedTuple):
    """An object: `modified` in seconds since 1970, by the service's clock; `token` that
    of the put that wrote it, which only `head` returns."""

    key: str
    size: int
    modified: float
    token: str = ""


class ObjectStore(Protocol):
    """An object store that `ckptdb.remote` can use. Several threads call its methods at
    the same time. Keys consist of parts of letters, digits, `.`, `_` and `-`, separated
    by `/`. A method retries what may succeed later, and raises:

    - FileExistsError if a put finds an object under its key
    - FileNotFoundError if `get_range` or `head` finds no object
    - PermissionError if credentials are wrong, or do not allow the call
    - OSError if the service did not answer; a put may have been done
    - a `ckptdb.Error`, which keeps its class

    A put must fail if the key exists, also if two puts run at the same time: the first
    push tries this, and refuses a store that overwrites. An attribute `name` names the
    store in errors, if it exists. A method `abort_uploads(prefix, before)` ends uploads
    that were begun before that time, in seconds since 1970, and never completed."""

    def put_if_absent(self, key: str, data: bytes, token: str) -> None:
        """Writes an object unless the key exists, and keeps the token, at most 64
        letters, digits and `-`, with it."""

    def put_file(self, key: str, path: str, token: str) -> None:
        """The same with the bytes of a file."""

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        """The bytes from `offset`, fewer than `length` at the object's end only."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """The object's size, time and token."""
        ...

    def list_after(self, prefix: str, after: str, limit: int) -> Iterable[ObjectInfo]:
        """At most `limit` objects whose keys begin with `prefix`, which ends with `/`,
        and come after `after`, in the order of their bytes."""
        ...

    def delete(self, key: str) -> None:
        """Deletes an object, if it exists."""


# Exceptions of obstore, by their names, and of Python, the first that matches.
_OF_OBSTORE: dict[str, type[Error]] = {
    "AlreadyExistsError": AlreadyExists,
    "NotFoundError": NotFound,
    "NotSupportedError": FailedPrecondition,
    "PermissionDeniedError": PermissionDenied,
    "UnauthenticatedError": PermissionDenied,
    "UnknownConfigurationKeyError": InvalidArgument,
    "GenericError": Unavailable,
}
_OF_PYTHON: list[tuple[type[Exception], type[Error]]] = [
    (FileExistsError, AlreadyExists),
    (FileNotFoundError, NotFound),
    (PermissionError, PermissionDenied),
    (NotImplementedError, FailedPrecondition),
    (MemoryError, ResourceExhausted),
    (OSError, Unavailable),
]


def _class_of(error: Exception) -> type[Error] | None:
    """The class of ckptdb's errors for another's exception; None for one that an object
    store should not raise, such as a TypeError."""
    if isinstance(error, Error):
        return type(error)
    kind = type(error)
    if kind.__module__.partition(".")[0] == "obstore" and kind.__name__ in _OF_OBSTORE:
        return _OF_OBSTORE[kind.__name__]
    matches = (ours for theirs, ours in _OF_PYTHON if isinstance(error, theirs))
    return next(matches, None)


class Adapter:
    """The interface that the extension calls. Its errors are those of ckptdb; expected
    outcomes are values."""

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._store = store
        self.name = name

    def _do(self, what: str, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            ours = _class_of(error)
            if ours is None or isinstance(error, Error):
                raise
            text = f"{type(error).__name__}: {error}"
            raise ours(f"{self.name}: {what}: {text}") from error

    def put(self, key: str, data: bytes, token: str) -> bool:
        """Whether this put has written the object."""
        return self._put(key, token, self._store.put_if_absent, data)

    def put_file(self, key: str, path: str, token: str) -> bool:
        return self._put(key, token, self._store.put_file, path)

    def _put(self, key: str, token: str, call: Any, content: Any) -> bool:
        try:
            self._do(f"put of {key}", call, key, content, token)
        except AlreadyExists:
            found = self.head(key)
            if found is None:
                raise Unavailable(
                    f"{self.name}: {key} existed when it was put, and was deleted since"
                ) from None
            return found[3] == token  # written by a try whose answer was lost
        return True

    def get(self, key: str, offset: int, length: int) -> bytes | None:
        """None without the object; fewer bytes beyond its end."""
        try:
            if length > 0:
                data = self._do(
                    f"get of {key}", self._store.get_range, key, offset, length
                )
                return data if isinstance(data, bytes) else bytes(data)
        except NotFound:
            return None
        except Error:
            # Stores fail in different ways if the range begins beyond the end.
            with contextlib.suppress(Error):
                found = self.head(key)
                if found is not None and offset + length > found[1]:
                    return b""
            raise
        return None if self.head(key) is None else b""

    def head(self, key: str) -> tuple[str, int, int, str] | None:
        try:
            return _tuple(self._do(f"head of {key}", self._store.head, key))
        except NotFound:
            return None

    def list_after(
        self, prefix: str, after: str, limit: int
    ) -> list[tuple[str, int, int, str]]:
        if limit == 0:
            return []

        def listed() -> list[ObjectInfo]:
            return list(self._store.list_after(prefix, after, limit))

        found = [_tuple(info) for info in self._do(f"list of {prefix}", listed)]
        last = after
        for key, *_ in found:
            if key <= last or not key.startswith(prefix):
                raise FailedPrecondition(
                    f'{self.name}: the list of {prefix} after "{last}" has "{key}"; a '
                    "store must list keys in the order of their bytes"
                )
            last = key
        return found[:limit]

    def delete(self, key: str) -> None:
        with contextlib.suppress(NotFound):
            self._do(f"delete of {key}", self._store.delete, key)

    @staticmethod
    def clear_frames(error: BaseException | None) -> None:
        """Drops the objects in the frames of an error, such as the bytes of a put."""
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__

    def abort_uploads(self, prefix: str, before: float) -> None:
        """Stores with uploads that may remain unfinished have such a method."""
        abort = getattr(self._store, "abort_uploads", None)
        if abort is not None:
            self._do(f"end of uploads below {prefix}", abort, prefix, before)


def _tuple(info: ObjectInfo) -> tuple[str, int, int, str]:
    return info.key, int(info.size), int(info.modified * 1e6), info.token


class _Obstore:
    """A store of obstore. Objects in S3 are those that `s3://` reads and writes: their
    tokens are metadata."""

    def __init__(self, store: Any) -> None:
        self._store = store
        # Azure takes only identifiers as names.
        azure = type(store).__name__ == "AzureStore"
        self._token = "ckptdb_token" if azure else "ckptdb-token"

    def put_if_absent(self, key: str, data: Any, token: str) -> None:
        self._store.put(key, data, mode="create", attributes={self._token: token})

    def put_file(self, key: str, path: str, token: str) -> None:
        self.put_if_absent(key, pathlib.Path(path), token)

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        return bytes(self._store.get_range(key, start=offset, length=length))

    def head(self, key: str) -> ObjectInfo:
        found = self._store.get(key, options={"head": True})
        return self._info(found.meta, found.attributes.get(self._token, ""))

    def list_after(self, prefix: str, after: str, limit: int) -> Iterable[ObjectInfo]:
        found: list[ObjectInfo] = []
        for chunk in self._store.list(
            prefix.rstrip("/"), offset=after or None, chunk_size=min(limit, 1000)
        ):
            found += [self._info(meta) for meta in chunk]
            if len(found) >= limit:
                break
        return found[:limit]

    def delete(self, key: str) -> None:
        self._store.delete(key)

    @staticmethod
    def _info(meta: Any, token: str = "") -> ObjectInfo:
        modified = meta["last_modified"].timestamp()
        return ObjectInfo(meta["path"], meta["size"], modified, token)


class _Fsspec:
    """A folder of a filesystem of fsspec. It keeps no metadata, so an object ends with
    its token, as in a folder of `file://`."""

    _TRAILER = struct.Struct("<64s8s")
    _MAGIC = b"ckptdbo1"

    def __init__(self, filesystem: Any, prefix: str) -> None:
        self._files = filesystem
        self._prefix = prefix.rstrip("/")

    def _path(self, key: str) -> str:
        return f"{self._prefix}/{key}" if self._prefix else key

    def put_if_absent(self, key: str, data: bytes, token: str) -> None:
        path = self._path(key)
        self._files.makedirs(posixpath.dirname(path), exist_ok=True)
        trailer = self._TRAILER.pack(token.encode(), self._MAGIC)
        self._files.pipe_file(path, data + trailer, mode="create")

    def put_file(self, key: str, path: str, token: str) -> None:
        self.put_if_absent(key, pathlib.Path(path).read_bytes(), token)

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        path = self._path(key)
        end = min(offset + length, self._size(path))
        if offset >= end:
            return b""
        return bytes(self._files.cat_file(path, start=offset, end=end))

    def head(self, key: str) -> ObjectInfo:
        path = self._path(key)
        size = self._size(path)
        end = self._files.cat_file(path, start=size, end=size + self._TRAILER.size)
        token, _ = self._TRAILER.unpack(bytes(end))
        return self._info(key, size, token.rstrip(b"\0").decode())

    def list_after(self, prefix: str, after: str, limit: int) -> Iterable[ObjectInfo]:
        self._files.invalidate_cache()
        folder = self._path(prefix.rstrip("/"))
        if not self._files.exists(folder):
            return []
        begin = len(self._files._strip_protocol(self._path("x"))) - 1
        found = self._files.find(folder, detail=True)
        sizes = {path[begin:]: info["size"] for path, info in found.items()}
        keys = sorted(key for key in sizes if key > after)[:limit]
        return [self._info(key, sizes[key] - self._TRAILER.size) for key in keys]

    def delete(self, key: str) -> None:
        self._files.rm_file(self._path(key))

    def _size(self, path: str) -> int:
        info = self._files.info(path)
        if info["type"] != "file":
            raise FileNotFoundError(path)
        return int(info["size"]) - self._TRAILER.size

    def _info(self, key: str, size: int, token: str = "") -> ObjectInfo:
        modified = self._files.modified(self._path(key))
        if modified.tzinfo is None:
            modified = modified.replace(tzinfo=datetime.timezone.utc)
        return ObjectInfo(key, size, modified.timestamp(), token)


# Services in which fsspec's objects would differ from those of s3:// and obstore.
_CLOUDS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "adl", "az"}


def _of_fsspec(filesystem: Any, prefix: str) -> str | Adapter:
    protocols = filesystem.protocol
    names = {protocols} if isinstance(protocols, str) else set(protocols)
    if names & {"file", "local"}:
        return f"file://{os.path.abspath(prefix)}"
    name = f"{sorted(names)[0]}://{prefix.strip('/')}"
    if names & _CLOUDS:
        raise InvalidArgument(
            f"{name}: a filesystem of fsspec keeps no token with an object, and may "
            "overwrite; pass a store of obstore, such as obstore.store.S3Store"
        )
    return Adapter(_Fsspec(filesystem, prefix), name)


def _of_obstore(store: Any) -> str | Adapter:
    if type(store).__name__ == "LocalStore":
        if store.prefix is None:
            raise InvalidArgument("the LocalStore has no prefix; give it a folder")
        return f"file://{os.path.abspath(store.prefix)}"
    return Adapter(_Obstore(store), repr(store))


_METHODS = ("put_if_absent", "put_file", "get_range", "head", "list_after", "delete")


def open_target(target: Any) -> str | Adapter:
    """A URL, or an adapter that the extension calls."""
    if isinstance(target, str):
        return target
    if isinstance(target, tuple) and len(target) == 2:
        filesystem, prefix = target
        if hasattr(filesystem, "pipe_file") and isinstance(prefix, str):
            return _of_fsspec(filesystem, prefix)
    kinds = type(target).__mro__
    if any(kind.__module__.partition(".")[0] == "obstore" for kind in kinds):
        return _of_obstore(target)
    if all(callable(getattr(target, name, None)) for name in _METHODS):
        return Adapter(target, str(getattr(target, "name", type(target).__name__)))
    if hasattr(target, "pipe_file"):
        raise InvalidArgument(
            "the target is a filesystem of fsspec; pass a pair of it and a folder, "
            'such as (filesystem, "models/ctr")'
        )
    missing = [n for n in _METHODS if not callable(getattr(target, n, None))]
    raise InvalidArgument(
        f"the target is a {type(target).__name__}, without {', '.join(missing)}; "
        'expected a URL such as "s3://bucket/prefix", a store of obstore, a pair of a '
        "filesystem of fsspec and a folder, or a ckptdb.remote.ObjectStore"
    )


# Targets by their URL in this process, as long as something keeps them.
_with_url: weakref.WeakValueDictionary[str, Adapter] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


def url_of(target: Target, kept: list[Any]) -> str:
    """The URL of a target: its own, or one that is valid in this process as long as
    `kept` exists."""
    opened = open_target(target)
    if isinstance(opened, str):
        return opened
    url = f"object://{next(_numbers)}/{opened.name}"
    _with_url[url] = opened
    kept.append(opened)
    return url


def path_of(path: Any, kept: list[Any]) -> str:
    """A path, or the URL of a target."""
    if isinstance(path, (str, bytes, os.PathLike)):
        text = os.fsdecode(path)
        if text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text):
            return text
        raise InvalidArgument(f"the path is {path!r}; expected UTF-8")
    return url_of(path, kept)


def find(url: str) -> Adapter:
    """The target with such a URL. The extension calls this."""
    try:
        return _with_url[url]
    except KeyError:
        raise FailedPrecondition(
            f'the object store of "{url}" no longer exists in this process'
        ) from None
