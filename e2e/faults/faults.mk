.PHONY: faults

## faults: what a server does when it is killed, flooded, starved; at length, which takes ten minutes
faults:
	cd e2e && FAULT_ROUNDS=100 FAULT_MOMENTS=50 FAULT_REQUESTS=10000 FAULT_PAUSE=30s go test -count=1 -timeout 60m -v ./faults
