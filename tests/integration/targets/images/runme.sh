#!/usr/bin/env bash
# Base images as a user meets them: fetched once, verified in each run, never replaced silently, from a mirror if wanted.
set -eux

work="$(mktemp -d)"
server=""
trap 'rm -rf "${work}"; [ -z "${server}" ] || kill "${server}"' EXIT
mkdir -p "${work}/www/a" "${work}/www/mirror/127.0.0.1:1/a"

publish() {
    for name in disk.qcow2 download root.tar.gz; do
        echo "$1 ${name}" > "${work}/www/a/${name}"
    done
    (cd "${work}/www/a" && sha256sum disk.qcow2 download root.tar.gz > SHA256SUMS)
}

python -u -m http.server --bind 127.0.0.1 --directory "${work}/www" 0 > "${work}/server.log" 2>&1 &
server=$!
for _ in $(seq 100); do
    port="$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "${work}/server.log")"
    [ -z "${port}" ] || break
    sleep 0.1
done
site="http://127.0.0.1:${port}"

play() {
    sum="$(sha256sum "${work}/www/a/download" | cut -d ' ' -f 1)"
    ansible-playbook -i localhost, files/fetch.yml -e "work=${work} site=${site} two_sum=${sum}" "$@" > "${work}/out" 2>&1
}

refused() {
    expected="$1"
    shift
    if play "$@"; then
        echo "was accepted"
        exit 1
    fi
    tr -s '\n ' '  ' < "${work}/out" | grep -qF -- "${expected}"
}

# check mode says what will be fetched, and fetches nothing
publish first
play --check
grep -q 'changed=2 ' "${work}/out"
test ! -e "${work}/images"
play
test "$(cd "${work}/images" && echo *)" = "one.qcow2 root.tar.gz two.img"
test "$(stat -c %a "${work}/images" "${work}/images/two.img" | tr '\n' ' ')" = "711 644 "
cmp "${work}/www/a/download" "${work}/images/two.img"
play
grep -q 'changed=0 ' "${work}/out"
play --check
grep -q 'changed=0 ' "${work}/out"

# a new release under the same URL: the image of a machine is kept, and so nothing else is fetched
publish second
refused "The base images one, two in ${work}/images do not have their checksum in images_list" --check
refused "Add a new image under another name"
grep -q first "${work}/images/one.qcow2"
grep -q first "${work}/images/root.tar.gz"
play -e images_replace=true
grep -q second "${work}/images/one.qcow2"
grep -q second "${work}/images/root.tar.gz"
play
grep -q 'changed=0 ' "${work}/out"
# an archive for containers is only unpacked
echo damaged > "${work}/images/root.tar.gz"
play
grep -q second "${work}/images/root.tar.gz"

# what does not arrive as published gets no name
rm "${work}/images/one.qcow2"
echo cut > "${work}/www/a/disk.qcow2"
refused "did not match"
test ! -e "${work}/images/one.qcow2"

# a mirror has the same hosts and paths, also of the checksums
cp "${work}"/www/a/* "${work}/www/mirror/127.0.0.1:1/a/"
echo "second disk.qcow2" > "${work}/www/mirror/127.0.0.1:1/a/disk.qcow2"
site=http://127.0.0.1:1
play -e "images_mirror=http://127.0.0.1:${port}/mirror"
grep -q second "${work}/images/one.qcow2"

# slips
refused "needs a unique name" -e '{"images_list": [{"name": "../x", "url": "http://127.0.0.1/x.img", "checksum": "sha256:1"}]}'
refused "needs a unique name" -e '{"images_list": [{"name": "x", "url": "http://127.0.0.1/x", "checksum": "sha256:1"}]}'
refused "x needs a url with a checksum" -e '{"images_list": [{"name": "x", "url": "http://127.0.0.1/x.img"}]}'
refused "x needs a url with a checksum. Only debian-12, debian-13 can be given by name alone" -e '{"images_list": [{"name": "x"}]}'
