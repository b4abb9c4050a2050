package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/homedir"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Merge adds the entries of a kubeconfig with one context to the user's own, in the file that
// kubectl would write to (clientcmd.ModifyConfig, with its lock), and with use makes its context
// the current one. It never replaces an entry of another server. It returns the file and that of
// its former content, which is empty if there was none or nothing has changed.
func Merge(data []byte, use bool) (file, backup string, err error) {
	added, err := clientcmd.Load(data)
	if err != nil {
		return "", "", fmt.Errorf("read the kubeconfig of the server: %w", err)
	}
	paths := clientcmd.NewDefaultPathOptions()
	if file = paths.GetDefaultFilename(); homedir.HomeDir() == "" && os.Getenv(paths.EnvVar) == "" {
		return "", "", fmt.Errorf("there is no home directory to find your kubeconfig in: set %s", paths.EnvVar)
	}
	merged, err := paths.GetStartingConfig()
	if err != nil {
		return "", "", fmt.Errorf("merge into %s, which is not a kubeconfig; nothing was changed: %w", file, err)
	}
	before, err := clientcmd.Write(*merged)
	if err != nil {
		return "", "", fmt.Errorf("render your kubeconfig: %w", err)
	}
	for name, context := range added.Contexts {
		cluster, user := added.Clusters[context.Cluster], added.AuthInfos[context.AuthInfo]
		knownCluster, knownUser := merged.Clusters[context.Cluster], merged.AuthInfos[context.AuthInfo]
		known := merged.Contexts[name]
		if knownCluster == nil && knownUser != nil || knownCluster != nil && knownCluster.Server != cluster.Server ||
			known != nil && (known.Cluster != context.Cluster || known.AuthInfo != context.AuthInfo) {
			return "", "", fmt.Errorf("%s has entries called %s of another server or user: choose another name with --context",
				file, name)
		}
		if knownCluster != nil && knownUser != nil { // they stay in their files
			cluster.LocationOfOrigin, user.LocationOfOrigin = knownCluster.LocationOfOrigin, knownUser.LocationOfOrigin
		}
		merged.Clusters[context.Cluster], merged.AuthInfos[context.AuthInfo] = cluster, user
		if known == nil { // else keep its namespace
			merged.Contexts[name] = context
		}
		if use {
			merged.CurrentContext = name
		}
	}
	if after, err := clientcmd.Write(*merged); err == nil && bytes.Equal(before, after) {
		return file, "", nil
	}
	switch old, err := os.ReadFile(file); {
	case err == nil:
		backup = file + ".backup"
		if err := datadir.WriteFile(backup, old, 0o600); err != nil {
			return "", "", fmt.Errorf("keep the former kubeconfig; nothing was changed: %w", err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return "", "", fmt.Errorf("read your kubeconfig: %w", err)
	}
	if err := clientcmd.ModifyConfig(paths, *merged, true); err != nil {
		return "", "", fmt.Errorf("merge into %s: %w", file, err)
	}
	return file, backup, nil
}
