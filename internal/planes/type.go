package planes

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Resource is the resource of the type ControlPlane. It is cluster-scoped. The group is not
// kube-hyper-mini.io, which has a CRD (ServiceEndpoint): a group has Go types or CRDs.
var Resource = schema.GroupVersionResource{Group: "planes.kube-hyper-mini.io", Version: "v1alpha1", Resource: "controlplanes"}

// finalizer keeps a ControlPlane until its directory is removed.
const finalizer = "kube-hyper-mini.io/data"

// Spec is the spec of a ControlPlane. All fields are optional.
type Spec struct {
	// Profile is apis.profile of the configuration: generic or kubernetes.
	Profile string `json:"profile,omitempty" description:"the types that it serves: generic (default), or kubernetes with pods, deployments and all others, as data"`
	// SleepAfter is how long it runs without requests; empty for the host's planes.sleepAfter.
	SleepAfter string `json:"sleepAfter,omitempty" description:"how long it runs without requests, as 10s or 1h; the default is planes.sleepAfter of the server"`
	// Lifetime is how long after its last use the ControlPlane is deleted; empty for never.
	Lifetime string `json:"lifetime,omitempty" description:"how long after its last use it is deleted, as 10m or 7d; without it, never"`
	// From is what a new control plane begins with; empty for nothing.
	From From `json:"from,omitzero" description:"what a new control plane begins with"`
}

// From names the origin of the objects of a new control plane.
type From struct {
	// ControlPlane is copied, without its authorities and keys of service accounts.
	ControlPlane string `json:"controlPlane,omitempty" description:"the ControlPlane whose objects are copied; the copy has authorities and keys of its own"`
}

// Phases of a ControlPlane.
const (
	phaseAsleep = "Asleep"
	phaseAwake  = "Awake"
	phaseFailed = "Failed"
)

// Status is the status of a ControlPlane. It is written when the control plane is made, falls
// asleep, wakes or fails.
type Status struct {
	Phase string `json:"phase,omitempty" description:"Asleep, Awake or Failed"`
	// URL is the base of its API.
	URL string `json:"url,omitempty" description:"the base URL of its API"`
	// Made means that it has a directory with data.
	Made bool `json:"made,omitempty" description:"it has a directory with data"`
	// SizeBytes is the size of the directory when it last went to sleep.
	SizeBytes int64 `json:"sizeBytes,omitempty" description:"the size of its directory when it last went to sleep"`
	// LastUsed is the time of the last request before the status was written.
	LastUsed metav1.Time `json:"lastUsed,omitzero" description:"the time of the last request before this status was written"`
	// Message says why it has failed.
	Message string `json:"message,omitempty" description:"why it has failed"`
}

// object is a ControlPlane.
type object = controlplane.Object[Spec, Status]

// resource describes the type.
func resource() controlplane.Resource {
	return controlplane.Kind[Spec, Status]{
		Group: Resource.Group, Version: Resource.Version, Kind: "ControlPlane", ClusterScoped: true,
		ShortNames: []string{"cp"},
		Validate: func(_ context.Context, o, old *object) field.ErrorList {
			return validate(o, old)
		},
		Columns: []controlplane.KindColumn[Spec, Status]{
			{Name: "Phase", Type: "string", Value: func(o *object) any { return o.Status.Phase }},
			{Name: "Size", Type: "string", Value: func(o *object) any { return datadir.Size(o.Status.SizeBytes) }},
			{Name: "Last used", Type: "string", Value: func(o *object) any {
				if o.Status.LastUsed.IsZero() {
					return "never"
				}
				return duration.HumanDuration(time.Since(o.Status.LastUsed.Time))
			}},
			{Name: "URL", Type: "string", Wide: true, Value: func(o *object) any { return o.Status.URL }},
		},
	}.Resource()
}

// validate returns what is wrong with an object. old is nil at a creation.
func validate(o, old *object) field.ErrorList {
	var errs field.ErrorList
	if old == nil {
		for _, message := range validation.IsDNS1123Label(o.Name) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), o.Name, message+"; it is part of the URL"))
		}
	}
	spec := field.NewPath("spec")
	profiles := []string{config.ProfileGeneric, config.ProfileKubernetes}
	if o.Spec.Profile != "" && !slices.Contains(profiles, o.Spec.Profile) {
		errs = append(errs, field.NotSupported(spec.Child("profile"), o.Spec.Profile, profiles))
	}
	for name, text := range map[string]string{"sleepAfter": o.Spec.SleepAfter, "lifetime": o.Spec.Lifetime} {
		if text == "" {
			continue
		}
		if d, err := config.ParseDuration(text); err != nil {
			errs = append(errs, field.Invalid(spec.Child(name), text, err.Error()))
		} else if d < time.Second {
			errs = append(errs, field.Invalid(spec.Child(name), text, "at least 1s"))
		}
	}
	if from := o.Spec.From.ControlPlane; from != "" && len(validation.IsDNS1123Label(from)) > 0 {
		errs = append(errs, field.Invalid(spec.Child("from", "controlPlane"), from, "is not the name of a ControlPlane"))
	}
	if old != nil && old.Spec.From != o.Spec.From {
		errs = append(errs, field.Forbidden(spec.Child("from"), "is for new control planes: make another one"))
	}
	return errs
}

// durationOf returns the duration of a valid text, and otherwise, if it is empty.
func durationOf(text string, otherwise time.Duration) time.Duration {
	if d, err := config.ParseDuration(text); err == nil { // validate refuses other texts
		return d
	}
	return otherwise
}

// addFinalizer gives new objects the finalizer.
func addFinalizer(_ context.Context, attributes admission.Attributes) error {
	if o, ok := attributes.GetObject().(*object); ok && attributes.GetSubresource() == "" && !slices.Contains(o.Finalizers, finalizer) {
		o.Finalizers = append(o.Finalizers, finalizer)
	}
	return nil
}

// configuration returns that of a control plane of the host.
func configuration(host *config.ServerConfiguration, spec Spec) *config.ServerConfiguration {
	cfg := config.Default()
	cfg.APIServer.FeatureGates, cfg.Limits = host.APIServer.FeatureGates, host.Limits
	cfg.APIServer.Authentication.MaxTokenExpiration = host.APIServer.Authentication.MaxTokenExpiration
	// References to Services reach what those of the host reach. The address is not listened on:
	// a server on loopback only may call others on loopback.
	cfg.ServiceEndpointPolicy, cfg.Serving.BindAddress = host.ServiceEndpointPolicy, host.Serving.BindAddress
	cfg.Etcd.Embedded.QuotaBackend = host.Planes.QuotaBackend
	if spec.Profile != "" {
		cfg.APIs.Profile = spec.Profile
	}
	return cfg
}
