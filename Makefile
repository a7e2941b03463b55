# Two commands, each of which sets up what it needs (Debian-like machine with Rust and Go):
#
#   make demo           the main job, live, on a real one-node Kubernetes; KEEP=1 leaves it up
#   make test           all tests, the stories on that Kubernetes among them

CACHE := $(or $(REFRAIN_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/refrain)

.PHONY: demo test setup cluster lint crds

demo: setup
	@bash scripts/demo.sh $(if $(KEEP),--keep)

test: setup cluster
	@bash scripts/patiently.sh testing cargo test --workspace --locked

setup:
	@bash scripts/setup.sh

# The parts of the embedded Kubernetes: built once from pinned Go modules, about 12 minutes on 2 cores.
cluster: setup
	@bash e2e/cluster/build.sh > /dev/null

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked

# Writes the CRDs again after a change of crds/src/api.
crds:
	cargo run --package crds --bin crdgen -- crds charts/refrain-crds/files
