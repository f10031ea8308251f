#!/bin/sh
# mmdebstrap customize hook. Puts the offered packages and all that they depend on into the image as a
# local apt source: the stand-in for the package mirror of a site. The index is written here because
# neither dpkg-dev nor apt-utils need be on the machine.
set -eu
root=$1
shift
mirror=$root/srv/debs
mkdir -p "$mirror"
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get --yes --download-only --no-install-recommends install "$@"
cp "$root"/var/cache/apt/archives/*.deb "$mirror"
cd "$mirror"
for deb in *.deb; do
    dpkg-deb --field "$deb"
    echo "Filename: ./$deb"
    echo "Size: $(stat --format=%s "$deb")"
    echo "SHA256: $(sha256sum "$deb" | cut -d' ' -f1)"
    echo
done >Packages
rm -f "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/*
cat >"$root/etc/apt/sources.list.d/site-mirror.sources" <<SOURCE
Types: deb
URIs: file:/srv/debs
Suites: ./
Trusted: yes
SOURCE
