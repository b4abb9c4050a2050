package endpoints

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	"k8s.io/utils/ptr"
)

// Group and Version of ServiceEndpoint.
const (
	Group   = "kube-hyper-mini.io"
	Version = "v1alpha1"
)

const (
	plural         = "serviceendpoints"
	definitionName = plural + "." + Group
	fieldManager   = "kube-hyper-mini"
	// digestAnnotation has the digest of a definition: an equal one is not written.
	digestAnnotation = Group + "/definition"
	// versionAnnotation orders definitions: an older server does not replace that of a
	// newer one.
	versionAnnotation = Group + "/definition-version"
	// definitionVersion is increased with each change of the definition; a test
	// compares it with the digest.
	definitionVersion = 2
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
// definition that is up to date costs one read. An older one that cannot be updated (a
// webhook may refuse it, whose server is found with objects of this type only) stays in
// use, with a warning.
func Install(ctx context.Context, client *rest.Config, log *slog.Logger) error {
	dynamicClient, err := dynamic.NewForConfig(client)
	if err != nil {
		return fmt.Errorf("make the client that installs %s: %w", definitionName, err)
	}
	wanted, err := definition()
	if err != nil {
		return err
	}
	crds := dynamicClient.Resource(definitions)
	existing, err := crds.Get(ctx, definitionName, metav1.GetOptions{})
	found := err == nil
	switch {
	case found && existing.GetAnnotations()[digestAnnotation] == wanted.GetAnnotations()[digestAnnotation]:
		return nil
	case found && versionOf(existing) > definitionVersion:
		log.Info("the definition of ServiceEndpoint is that of a newer server", "version",
			versionOf(existing), "own", definitionVersion)
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("read the definition %s: %w", definitionName, err)
	}
	if _, err := crds.Apply(ctx, definitionName, wanted,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		if found {
			log.Warn("updating the definition of ServiceEndpoint failed; that of an earlier server stays in use", "error", err)
			return nil
		}
		return fmt.Errorf("apply the definition %s: %w", definitionName, err)
	}
	_, err = listOnceServed(ctx, client, log)
	return err
}

// versionOf is 0 for a definition without the annotation.
func versionOf(crd *unstructured.Unstructured) int {
	version, err := strconv.Atoi(crd.GetAnnotations()[versionAnnotation])
	if err != nil {
		return 0
	}
	return version
}

// create creates the type, and reports whether it did not exist. It does not change an
// existing one: a newer server on the same etcd may have created it.
func create(ctx context.Context, client dynamic.Interface) (created bool, err error) {
	wanted, err := definition()
	if err != nil {
		return false, err
	}
	_, err = client.Resource(definitions).Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, err
}

// listOnceServed sends requests until the type is served, and returns all objects. Until a
// starting server has read all its types it answers "not found, try again in 5 s"
// (k8s.io/apiserver/pkg/util/notfoundhandler), for which client-go would wait. It logs a
// warning after servedWarning.
func listOnceServed(ctx context.Context, config *rest.Config,
	log *slog.Logger) (*unstructured.UnstructuredList, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client for %s: %w", definitionName, err)
	}
	ticker := time.NewTicker(servedPoll)
	defer ticker.Stop()
	warn := time.After(servedWarning)
	for {
		data, err := client.RESTClient().Get().AbsPath("/apis/"+Group+"/"+Version+"/"+plural).
			SetHeader("Accept", runtime.ContentTypeJSON).MaxRetries(0).DoRaw(ctx)
		if err == nil {
			list := &unstructured.UnstructuredList{}
			return list, list.UnmarshalJSON(data)
		}
		select {
		case <-warn:
			log.Warn("ServiceEndpoints are not served, though they are defined, and references to Services are not "+
				"resolved: see the versions and conditions of crd/"+definitionName, "error", err)
			ticker.Reset(slowServedPoll)
		case <-ctx.Done():
			return nil, fmt.Errorf("wait until %s is served: %w", definitionName, errors.Join(context.Cause(ctx), err))
		case <-ticker.C:
		}
	}
}

// definition is the CRD with its digest.
func definition() (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(),
			Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: definitionName},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: Group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: plural, Singular: "serviceendpoint", Kind: "ServiceEndpoint", ListKind: "ServiceEndpointList",
				ShortNames: []string{"sep"},
				// As Services; without a type of this category, kubectl get all is an error.
				Categories: []string{"all"},
			},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: objectSchema()},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{
					{Name: "Targets", Type: "string", JSONPath: ".spec.targets"},
					{Name: "Reachable", Type: "string", JSONPath: ".status.reachable",
						Description: "How many of the targets speak TLS"},
					{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
				},
			}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("render the definition %s: %w", definitionName, err)
	}
	delete(content, "status")
	crd := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(crd.Object, "metadata", "creationTimestamp")
	rendered, err := json.Marshal(crd.Object)
	if err != nil {
		return nil, fmt.Errorf("render the definition %s: %w", definitionName, err)
	}
	digest := sha256.Sum256(rendered)
	crd.SetAnnotations(map[string]string{digestAnnotation: hex.EncodeToString(digest[:8]),
		versionAnnotation: strconv.Itoa(definitionVersion)})
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

// objectSchema describes a ServiceEndpoint; kubectl explain shows it.
func objectSchema() *apiextensionsv1.JSONSchemaProps {
	text := func(description string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "string", Description: description}
	}
	target := apiextensionsv1.JSONSchemaProps{
		Type: "string", MaxLength: ptr.To[int64](300),
		Pattern: `^https://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`,
	}
	condition := apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"type", "status", "lastTransitionTime", "reason", "message"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"type": text(""), "status": text(""), "reason": text(""), "message": text(""),
			"lastTransitionTime": {Type: "string", Format: "date-time"},
			"observedGeneration": {Type: "integer", Format: "int64"},
		},
	}
	return &apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"spec"},
		Description: "ServiceEndpoint says where the server behind a service: reference of an APIService, " +
			"an admission webhook or a " +
			"conversion webhook is. Its namespace and name are those of the Service that the reference names.",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"spec": {Type: "object", Required: []string{"targets"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"targets": {
					Type: "array", MinItems: ptr.To[int64](1), MaxItems: ptr.To[int64](64), XListType: ptr.To("set"),
					Description: "Where the replicas of the server listen, as https://host:port. They are used in turn; " +
						"one that does not accept " +
						"connections is asked last. Their certificates must be valid for <name>.<namespace>.svc.",
					Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &target},
				},
			}},
			"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"reachable": text("How many of the targets speak TLS, as 1/2."),
				"conditions": {
					Type: "array", XListType: ptr.To("map"), XListMapKeys: []string{"type"},
					Description: "Reachable is True when at least one target speaks TLS.",
					Items:       &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &condition},
				},
			}},
		},
	}
}
