"""python -m rehearsal.engine: build the image if it is not there; print its folder and digest."""
# SPDX-License-Identifier: GPL-3.0-or-later

import functools
import sys

from . import BuildError, build

if __name__ == "__main__":
    try:
        image = build(functools.partial(print, file=sys.stderr, flush=True))
    except BuildError as error:
        sys.exit(f"engine image: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    print(image.path, image.digest)
