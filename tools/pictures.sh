#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Draws docs/*.svg from docs/*.dot. Needs Debian's graphviz.
set -euo pipefail
cd "$(dirname "$0")/.."
for text in docs/*.dot; do
  dot -Tsvg "${text}" | sed '/^<!-- Generated/,/-->/d' > "${text%.dot}.svg"
done
