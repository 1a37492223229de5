# shellcheck shell=bash
# Everything that up.sh, load.sh and down.sh are made of.
here="$(dirname -- "${BASH_SOURCE[0]}")"
# shellcheck source=e2e/cluster/lib/common.sh
. "$here/common.sh"
# shellcheck source=e2e/cluster/lib/binaries.sh
. "$here/binaries.sh"
# shellcheck source=e2e/cluster/lib/docker.sh
. "$here/docker.sh"
# shellcheck source=e2e/cluster/lib/debian.sh
. "$here/debian.sh"
# shellcheck source=e2e/cluster/lib/images.sh
. "$here/images.sh"
# shellcheck source=e2e/cluster/lib/node.sh
. "$here/node.sh"
# shellcheck source=e2e/cluster/lib/published.sh
. "$here/published.sh"
# shellcheck source=e2e/cluster/lib/cluster.sh
. "$here/cluster.sh"
# shellcheck source=e2e/cluster/lib/services.sh
. "$here/services.sh"

# source: build every image here. published: pull those that exist. The default follows from
# where one or the other can work.
if [ -z "${HOLDFAST_IMAGES:-}" ]; then
	if is_debian_root; then HOLDFAST_IMAGES=source; else HOLDFAST_IMAGES=published; fi
fi
case "$HOLDFAST_IMAGES" in
source | published) ;;
*) die "HOLDFAST_IMAGES is \"$HOLDFAST_IMAGES\": it takes source or published" ;;
esac
# shellcheck disable=SC2034 # read by cluster.sh; without an image kind takes its own
[ "$HOLDFAST_IMAGES" = source ] || NODE_IMAGE=""
