package backup

import (
	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// undeleteOwnedNamespaces: an object that owns namespaces comes back with them and with
// what was in them.
func undeleteOwnedNamespaces(u undeletion) {
	u.s.Kubectl("", "create", "clusterrole", "company", "--verb=get", "--resource=configmaps")
	owner := owned(u.get("clusterroles.rbac.authorization.k8s.io", "", "company"))
	for _, name := range []string{"company-a", "company-b"} {
		u.apply("maker", "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", ownerReferences: "+owner+"}}")
		u.apply("maker", "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: "+name+"}, data: {of: "+name+"}}")
	}
	u.s.Kubectl("", "delete", "clusterrole", "company")
	u.gone("namespaces", "", "company-a")
	u.gone("namespaces", "", "company-b")

	dry := u.run(harness.ExitOK, "undelete", "clusterrole", "company", "--dry-run")
	harness.Contains(u, dry, "create  ClusterRole", "create  Namespace", "not checked: its namespace does not exist yet")
	harness.Contains(u, u.run(harness.ExitOK, "undelete", "clusterrole", "company"), "created  ClusterRole", "created  Namespace", "created  ConfigMap")
	u.garbageCollected()
	for _, name := range []string{"company-a", "company-b"} {
		if settings := u.get("configmaps", name, "settings"); settings == nil || u.get("serviceaccounts", name, "default") == nil {
			u.Errorf("%s came back with the settings %v, or without its service account", name, settings)
		}
	}
}
