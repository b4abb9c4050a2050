.PHONY: e2e-clients

## e2e-clients: the recipes of "help clients" with programs of other projects, which take minutes to build; k9s needs tmux
e2e-clients:
	cd e2e && KHM_CLIENTS=yes go test -count=1 -timeout 60m -v ./clients
