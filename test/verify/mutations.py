# SPDX-License-Identifier: BSD-2-Clause
"""For each finding of `rocemu verify`, recorded captures changed in just that respect. A mutation takes the frames of a
capture (a copy) and changes them or returns others."""
import mutation
import mutations_cm  # noqa: F401 # pylint: disable=unused-import
import mutations_packet  # noqa: F401 # pylint: disable=unused-import
import mutations_rc  # noqa: F401 # pylint: disable=unused-import

MUTATIONS = mutation.MUTATIONS  # importing the others filled it
