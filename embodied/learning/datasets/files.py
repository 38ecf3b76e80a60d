"""Two files for h5py: one that changes on disk only when told to, and one that goes on where a truncated file stops.

h5py takes any Python object that reads, writes and seeks: https://docs.h5py.org/en/stable/high/file.html
"""

from __future__ import annotations

import fcntl
import io
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from embodied.errors import UserError

_PAGE = 4096

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_END_OF_FILE_AT = {0: 40, 1: 44, 2: 28, 3: 28}
"""Where a superblock of each version says at which address its file ends (HDF5 File Format Specification, II.A)."""


def stored_size(head: bytes) -> int | None:
    """The length that an HDF5 file says it has, from its first 64 bytes; None where it cannot be told."""
    if not head.startswith(SIGNATURE) or len(head) < 64 or head[8] not in _END_OF_FILE_AT:
        return None
    width = head[9] if head[8] >= 2 else head[13]
    start = _END_OF_FILE_AT[head[8]]
    return int.from_bytes(head[start : start + 8], "little") if width == 8 else None


class _Seekable(io.RawIOBase):
    """A position in a file of known length."""

    _at = 0
    _length = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        self._at = start + offset
        return self._at


class StagedFile(_Seekable):
    """A file whose writes wait in memory until `commit`.

    What lies behind the old end is written first and what replaces older bytes last, so that a process that is killed
    leaves the old contents or the new ones but for the moment of the second part; and where the disk is full, the file
    stays as it was.
    """

    def __init__(self, path: Path) -> None:
        """Opens or makes the file and locks it for this process.

        Raises:
            UserError: Another process is writing it.
        """
        super().__init__()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise UserError(f"another process has {path} open: wait for it, or choose another file") from None
        self._disk = self._length = os.fstat(self._descriptor).st_size
        self._valid = self._disk
        """Bytes on the disk before any truncation that is not committed yet."""
        self._pages: dict[int, bytearray] = {}

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._length - self._at))
        done = 0
        while done < count:
            number, start = divmod(self._at + done, _PAGE)
            size = min(_PAGE - start, count - done)
            view[done : done + size] = self._page(number)[start : start + size]
            done += size
        self._at += count
        return count

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            number, start = divmod(self._at + done, _PAGE)
            size = min(_PAGE - start, len(view) - done)
            page = self._pages.setdefault(number, bytearray(self._page(number)))
            page[start : start + size] = view[done : done + size]
            done += size
        self._at += done
        self._length = max(self._length, self._at)
        return done

    def truncate(self, size: int | None = None, /) -> int:
        """Only as far as this file is read through this object; the disk follows at `commit`."""
        size = self._at if size is None else size
        for number in [n for n in self._pages if n * _PAGE >= size]:
            del self._pages[number]
        number, start = divmod(size, _PAGE)
        if size < self._length and start:
            page = self._pages.setdefault(number, bytearray(self._page(number)))
            page[start:] = bytes(_PAGE - start)
        self._length = size
        self._valid = min(self._valid, size)
        return size

    def commit(self) -> None:
        """Everything that was written goes to the file.

        Raises:
            OSError: The disk is full, or does not take it; the file is as it was before.
        """
        old = self._disk
        try:
            # Page by page without holes: what is written over later must not need room on the disk.
            for number in range(old // _PAGE, -(-self._length // _PAGE)):
                first = number * _PAGE
                start = max(first, old)
                self._put(start, self._page(number)[start - first : self._length - first])
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, old)
            raise
        stop = min(old, self._length)
        stale = set(range(self._valid // _PAGE, -(-stop // _PAGE))) if self._valid < stop else set()
        for number in sorted(stale | {number for number in self._pages if number * _PAGE < stop}):
            self._put(number * _PAGE, self._page(number)[: stop - number * _PAGE])
        os.ftruncate(self._descriptor, self._length)
        self._disk = self._valid = self._length
        self._pages.clear()

    def sync(self) -> None:
        """What was committed survives a loss of power."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Releases the file; what was not committed is forgotten."""
        if not self.closed:
            os.close(self._descriptor)
            self._pages.clear()
        super().close()

    def _page(self, number: int) -> bytes | bytearray:
        if number in self._pages:
            return self._pages[number]
        data = os.pread(self._descriptor, _PAGE, number * _PAGE)[: max(0, self._valid - number * _PAGE)]
        return data + bytes(_PAGE - len(data))

    def _put(self, start: int, data: bytes | bytearray) -> None:
        done = 0
        while done < len(data):
            done += os.pwrite(self._descriptor, data[done:], start + done)


class PaddedFile(_Seekable):
    """A truncated file, read as if it went on with one byte for ever up to the length that it should have."""

    def __init__(self, path: Path, length: int, fill: int) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._length = length
        self._fill = bytes([fill])

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._length - self._at))
        data = os.pread(self._descriptor, count, self._at)
        view[:count] = data + self._fill * (count - len(data))
        self._at += count
        return count

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()
