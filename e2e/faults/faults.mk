.PHONY: faults

## faults: what a server does when it is killed, flooded, starved, at length; RUN=TestName for one, ROUNDS=n instead of 100; it logs each round
faults:
	cd e2e && FAULT_ROUNDS=$(or $(ROUNDS),100) FAULT_MOMENTS=50 FAULT_REQUESTS=10000 FAULT_PAUSE=30s go test -count=1 -timeout 3h -v -run '$(or $(RUN),.)' ./faults
