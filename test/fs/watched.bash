# watched: one mount m under the spy's eyes, and Python scripts that work on it.
# Load it after helper.

# py [ARGUMENT...]: runs the Python script on its input; what it can use is in
# prelude.py.
py() { python3 "$HERE/prelude.py" "$@"; }

# start [OPTION...]: a mount m under the spy's eyes, and no record yet.
start() {
	spy_at m "$@"
	OWN=$DIR/m/cells/x/own
	CALLS=$DIR/m.calls
	export OWN CALLS
}

# owned [OPTION...]: the same, with the cell x owned by node a at epoch 1.
owned() {
	start "$@"
	create "$OWN" "$(own a 1)"
}
