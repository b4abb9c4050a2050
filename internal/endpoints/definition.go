package endpoints

import (
	"context"
	_ "embed" // the definition
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Group and Version of ServiceEndpoint.
const (
	Group   = "kube-hyper-mini.io"
	Version = "v1alpha1"
)

//go:embed serviceendpoint.yaml
var definitionFile []byte

const (
	plural         = "serviceendpoints"
	definitionName = plural + "." + Group
	fieldManager   = "kube-hyper-mini"
	// versionAnnotation orders definitions.
	versionAnnotation = Group + "/definition-version"
	// servedPoll is the time between two requests until the type is served. After
	// servedWarning the log has a warning, and slowServedPoll is that time.
	servedPoll     = 10 * time.Millisecond
	servedWarning  = 5 * time.Second
	slowServedPoll = time.Second
)

var (
	serviceEndpoints = schema.GroupVersionResource{Group: Group, Version: Version, Resource: plural}
	definitions      = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
)

// Install creates or updates the type ServiceEndpoint and returns when it is served. A
// definition that is up to date costs one read.
func Install(ctx context.Context, client *rest.Config, log *slog.Logger) error {
	dynamicClient, err := dynamic.NewForConfig(client)
	if err != nil {
		return fmt.Errorf("make the client that installs %s: %w", definitionName, err)
	}
	if written, err := write(ctx, dynamicClient, log); err != nil || !written {
		return err
	}
	return awaitServed(ctx, client, log)
}

// write writes the definition, and reports whether it was missing or older. If an older one cannot be
// updated, it stays in use, with a warning: a webhook may refuse the update, and its server may be
// named by a ServiceEndpoint only.
func write(ctx context.Context, client dynamic.Interface, log *slog.Logger) (written bool, err error) {
	wanted, err := definition()
	if err != nil {
		return false, err
	}
	crds := client.Resource(definitions)
	existing, err := crds.Get(ctx, definitionName, metav1.GetOptions{})
	found := err == nil
	switch {
	case found && versionOf(existing) >= versionOf(wanted):
		return false, nil
	case !found && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("read the definition %s: %w", definitionName, err)
	}
	_, err = crds.Apply(ctx, definitionName, wanted, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	switch {
	case err == nil:
		return true, nil
	case found:
		log.Warn("updating the definition of ServiceEndpoint failed; that of an earlier server stays in use", "error", err)
		return false, nil
	}
	return false, fmt.Errorf("apply the definition %s: %w", definitionName, err)
}

// versionOf is 0 for a definition without the annotation.
func versionOf(crd *unstructured.Unstructured) int {
	version, _ := strconv.Atoi(crd.GetAnnotations()[versionAnnotation])
	return version
}

// awaitServed sends requests until the type is served. Until a starting server has read all its
// types it answers "not found, try again in 5 s" (k8s.io/apiserver/pkg/util/notfoundhandler), for
// which client-go would wait. It logs a warning after servedWarning.
func awaitServed(ctx context.Context, config *rest.Config, log *slog.Logger) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("make the client for %s: %w", definitionName, err)
	}
	ticker := time.NewTicker(servedPoll)
	defer ticker.Stop()
	warn := time.After(servedWarning)
	for {
		_, err := client.RESTClient().Get().AbsPath("/apis/"+Group+"/"+Version+"/"+plural).Param("limit", "1").
			SetHeader("Accept", runtime.ContentTypeJSON).MaxRetries(0).DoRaw(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-warn:
			log.Warn("ServiceEndpoints are not served, though they are defined, and references to Services are not "+
				"resolved: see the versions and conditions of crd/"+definitionName, "error", err)
			ticker.Reset(slowServedPoll)
		case <-ctx.Done():
			return fmt.Errorf("wait until %s is served: %w", definitionName, errors.Join(context.Cause(ctx), err))
		case <-ticker.C:
		}
	}
}

// definition is the CRD of this release.
func definition() (*unstructured.Unstructured, error) {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(definitionFile, &crd.Object); err != nil {
		return nil, fmt.Errorf("read the definition %s: %w", definitionName, err)
	}
	return crd, nil
}

// ViewRole lets the roles view, edit and admin read ServiceEndpoints. Writing them decides
// where requests of the server go, and is for administrators.
func ViewRole() rbacv1.ClusterRole {
	return rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "kube-hyper-mini:serviceendpoints:view",
			Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"},
		},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{Group},
			Resources: []string{plural}}},
	}
}
