#!/bin/sh
# Archives a directory as <out>/backups/<folder>-<scheduled time>.tar.gz and keeps the newest N archives.
#   backup.sh <folder> <N>
# The archive is named after the scheduled time, so a second attempt writes the same file. It is moved into place
# atomically, so a killed attempt leaves no partial archive.
set -eu
folder=$1 keep=$2
out=${TMPDIR:-/tmp}/cronflow-examples/backups
mkdir -p "$out"
stamp=$(printf %s "$CRONFLOW_FIRE_AT" | tr -d ':-')
draft=$out/.$folder-$stamp.$CRONFLOW_FENCE
trap 'rm -f "$draft"' EXIT
tar -czf "$draft" "$folder"
tar -tzf "$draft" >/dev/null
mv "$draft" "$out/$folder-$stamp.tar.gz"
echo "packed $folder: $(wc -c <"$out/$folder-$stamp.tar.gz") bytes"
ls -1 "$out" | grep "^$folder-.*\.tar\.gz$" | sort -r | tail -n +$((keep + 1)) | while read -r old; do
  rm -f "$out/$old"
  echo "pruned $old"
done
