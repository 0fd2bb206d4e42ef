#!/usr/bin/env bats
# package: the .deb and the source archive that cpack makes.

load helper

ROOT=$(cd "$HERE/../.." && pwd)

setup_file() {
	export PACKAGES=$BATS_FILE_TMPDIR
	(cd "$CELLDFS_BUILD" && cpack -B "$PACKAGES" &&
		cpack -B "$PACKAGES" --config CPackSourceConfig.cmake) >"$PACKAGES/log" 2>&1 ||
		{ cat "$PACKAGES/log"; return 1; }
}

# unpacked: the package's files, at $DIR/deb.
unpacked() { dpkg-deb -x "$PACKAGES"/celldfs_*.deb "$DIR/deb"; }

@test "package: the .deb holds what is installed, and needs the libraries" {
	local field

	unpacked
	is "$(cd "$DIR/deb" && find . -type f | sed 's/^..//' | sort)" \
		"$(cat "$HERE/package.list")"
	field=$(dpkg-deb -f "$PACKAGES"/celldfs_*.deb Depends)
	for library in fuse3 libfuse3-3 libcurl4 libsqlite3-0 libssl3 libcjson1 libexpat1; do
		[[ ", $field," =~ ", $library"[\ ,] ]] || { echo "$field"; return 1; }
	done
	is "$(find "$DIR/deb" -perm /022)" ""
	is "$(dpkg-deb --ctrl-tarfile "$PACKAGES"/celldfs_*.deb | tar -t | sort | xargs)" \
		"./control ./md5sums ./postinst ./prerm"
}

@test "package: what it holds works where it lies" {
	unpacked
	mount_with "$DIR/deb/usr/bin/celldfs" m -o node=a
	PATH=$DIR/deb/usr/bin:$PATH
	"$DIR/deb/usr/bin/celldfs-run" -m "$DIR/m" job -- sh -c 'echo "$CELLD_EPOCH"'
	run celldfs-owner -m "$DIR/m" job
	echo "$output"
	[ "$status" -eq 0 ]
	run celldfs-fleet -m "$DIR/m"
	echo "$output"
	[ "$status" -eq 0 ]
	gzip -t "$DIR"/deb/usr/share/man/man*/*
}

@test "package: lintian has nothing to say" {
	command -v lintian >/dev/null || skip "no lintian"
	run lintian --allow-root --fail-on error,warning "$PACKAGES"/celldfs_*.deb
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "package: the source archive is the tree, and configures" {
	tar -C "$DIR" -xzf "$PACKAGES"/celldfs-*-Source.tar.gz
	run diff -rq -x .git -x 'build*' "$ROOT" "$DIR"/celldfs-*-Source
	is "$output" ""
	cmake -S "$DIR"/celldfs-*-Source -B "$DIR/build" -DBUILD_TESTING=OFF >/dev/null
}
