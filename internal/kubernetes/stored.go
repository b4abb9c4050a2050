package kubernetes

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/workloads"
)

// namedObjects is the number of objects of a type that Stored names.
const namedObjects = 3

// Stored describes the objects below the prefix whose types only this profile
// serves, as "2 deployments.apps (default/web, team/api)", in alphabetical order.
// It returns none for a store that was never used with this profile, after one
// read. Objects that the server makes by itself do not count.
func Stored(ctx context.Context, kv clientv3.KV, prefix string) ([]string, error) {
	root := path.Join("/", prefix) + "/"
	used, err := kv.Get(ctx, root+workloads.ServiceCIDR, clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("look for objects of the profile kubernetes: %w", err)
	}
	if used.Count == 0 {
		return nil, nil
	}
	var found []string
	for group, resources := range workloads.StoredTypes {
		for _, name := range resources {
			resource := schema.GroupResource{Group: group, Resource: name}
			description, err := describe(ctx, kv, root, resource)
			if err != nil {
				return nil, err
			}
			if description != "" {
				found = append(found, description)
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// describe counts and names the objects of one type; empty if there are none.
func describe(ctx context.Context, kv clientv3.KV, root string, resource schema.GroupResource) (string, error) {
	below := store.NamespaceKeys(root, workloads.KeyPrefix(resource), "")
	response, err := kv.Get(ctx, below, clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithLimit(namedObjects+int64(len(workloads.OwnObjects))))
	if err != nil {
		return "", fmt.Errorf("look for %s: %w", resource, err)
	}
	count, names := response.Count, []string{}
	for _, found := range response.Kvs {
		key := string(found.Key)
		switch {
		case slices.Contains(workloads.OwnObjects, strings.TrimPrefix(key, root)):
			count--
		case len(names) < namedObjects:
			names = append(names, strings.TrimPrefix(key, below))
		}
	}
	if count == 0 {
		return "", nil
	}
	if count > int64(len(names)) {
		names = append(names, "...")
	}
	return fmt.Sprintf("%d %s (%s)", count, resource, strings.Join(names, ", ")), nil
}

// CheckPrefix returns an error if a server has stored its objects below another prefix only.
func CheckPrefix(ctx context.Context, client clientv3.KV, prefix string) error {
	const always = "/namespaces/default" // each server has it
	own, err := client.Get(ctx, path.Join("/", prefix)+always, clientv3.WithCountOnly())
	if err != nil || own.Count > 0 {
		return err
	}
	all, err := client.Get(ctx, "/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("look for objects of another prefix: %w", err)
	}
	for _, kv := range all.Kvs {
		if other, found := strings.CutSuffix(string(kv.Key), always); found {
			return &config.FieldError{Path: "etcd.external.prefix", Message: fmt.Sprintf("the objects are stored below %s, and "+
				"none below %s: write etcd: {external: {prefix: %[1]s}} into the configuration", other, prefix)}
		}
	}
	return nil
}

// CheckStored returns an error if the store has objects, below the prefix, of built-in types
// that the profile of the configuration does not serve.
func CheckStored(ctx context.Context, client clientv3.KV, prefix, profile string) error {
	if profile == config.ProfileKubernetes {
		return nil
	}
	unserved, err := Stored(ctx, client, prefix)
	if err != nil {
		return err
	}
	if len(unserved) > 0 {
		return &config.FieldError{Path: "apis.profile", Message: fmt.Sprintf(
			"%s does not serve what is stored: %s; set it to %s, and delete them if they are not needed any more", profile,
			strings.Join(unserved, ", "), config.ProfileKubernetes)}
	}
	return nil
}
