#!/usr/bin/env bash
# Runs the end-to-end tests to run while working: at least one for each package of
# internal that a user can see. Without one of their own are checks, issuers, memory,
# upstream and version. `make e2e` runs all.
set -euo pipefail
cd "$(dirname "$0")/../e2e"

# package, tests, and the packages of internal that they cover
set_of_tests() {
	cat <<'TESTS'
.           TestReadme                           cli, appliance, lifecycle, apiserver, crds, controllers
.           TestBadConfiguration                 config
.           TestDefaultDataDirectory             cli
.           TestStatusCommand                    admin
.           TestDoctorText                       doctor
.           TestRunEndsWithItsOwner              testplane
.           TestKubectlSubcommand                kubectl
.           TestTopics                           help
.           TestJSONLog                          logging
.           TestServiceManager                   systemd
.           TestWatchAcrossARestart              etcd, etcd/datastore
.           TestIdentityIsStable                 identity, pki, datadir
.           TestKubeconfigCommand                kubeconfig
.           TestSecretsAreEncryptedAtRest        encryption
.           TestRBACAllowsAndDenies              apiserver
.           TestValidatingAdmissionPolicy        apiserver
.           TestCreatedTypesAreUsableAtOnce      crds, servedtypes, storage
.           TestServerSideApply                  crds/openapi
.           TestForegroundDeletion               controllers
.           TestNamespaceDeletionRemovesObjects  controllers, reconcile
.           TestResourceQuota                    controllers
.           TestStopWithOpenWatches              lifecycle
.           TestStoreOfAnotherProfile            kubernetes
.           TestEnvtestOfAKilledTest             envtest
.           TestPlanes                           planes
library     TestPrograms                         controlplane
aggregation TestConfiguredEndpoints              aggregation, endpoints
backup      TestRestore                          backup
backup      TestUndelete                         journal, history, undelete
console     TestPages                            console
fleet       TestSimultaneousFirstStarts          fleet
packaging   TestManifestsAreAppliedBeforeReady   manifests
TESTS
}

names=()
while read -r package test _; do
	grep -q "^func $test(" "$package"/*_test.go || { echo "$0 names $test, which e2e/$package does not have: correct the list" >&2; exit 1; }
	names+=("$test")
done < <(set_of_tests)
mapfile -t packages < <(set_of_tests | awk '{ print $1 == "." ? "." : "./" $1 }' | sort -u)
pattern=$(IFS='|'; echo "^(${names[*]})\$")
# -count=1: a result from the cache would be that of another binary.
go test -count=1 -vet=off -parallel 4 -short -timeout 10m -run "$pattern" "${packages[@]}"
