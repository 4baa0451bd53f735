#!/bin/sh
# Packs a folder into <out>/backups/<folder>-<instant>.tar.gz and keeps the newest N archives.
#   backup.sh <folder> <N>
# The archive is named after the fire, so an attempt that runs twice writes the same file; it appears in one step, so a
# killed attempt leaves no half archive behind.
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
