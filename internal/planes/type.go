package planes

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Resource is the resource of the type ControlPlane. It is cluster-scoped. The group is not
// kube-hyper-mini.io, which has a CRD (ServiceEndpoint): a group has Go types or CRDs.
var Resource = schema.GroupVersionResource{Group: "planes.kube-hyper-mini.io",
	Version: "v1alpha1", Resource: "controlplanes"}

// finalizer keeps a ControlPlane until its directory is removed.
const finalizer = "kube-hyper-mini.io/data"

// Spec is the spec of a ControlPlane. All fields are optional.
type Spec struct {
	Profile    string   `json:"profile,omitempty" description:"generic (default), or kubernetes with pods and all others"`
	SleepAfter Amount   `json:"sleepAfter,omitzero" description:"how long it runs without requests, as 10s or 1h"`
	Lifetime   Amount   `json:"lifetime,omitzero" description:"it is deleted so long after its last use, as 10m or 7d"`
	Quota      Quota    `json:"quota,omitzero" description:"bounds of what it stores"`
	From       From     `json:"from,omitzero" description:"what it begins with; its authorities and keys are its own"`
	CRDs       CRDs     `json:"crds,omitzero" description:"where the CRDs come from that are applied before it is ready"`
	Backup     Backup   `json:"backup,omitzero" description:"its scheduled backups"`
	Journal    *Journal `json:"journal,omitempty" description:"its journal; {} for one with the settings of the server"`
	Deletion   string   `json:"deletion,omitempty" description:"Delete (default), or Archive, which makes a last backup"`
}

// Amount is the text of a duration or a quantity. It keeps the text of other JSON values: the
// validation then refuses them with the name of the field, which the decoder's error lacks.
type Amount struct{ Text string }

// MarshalJSON implements [json.Marshaler].
func (a Amount) MarshalJSON() ([]byte, error) { return json.Marshal(a.Text) }

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Amount) UnmarshalJSON(data []byte) error {
	a.Text = ""
	if err := json.Unmarshal(data, &a.Text); err != nil {
		a.Text = string(data)
	}
	return nil
}

// OpenAPISchemaType is that of a string.
func (Amount) OpenAPISchemaType() []string { return []string{"string"} }

// OpenAPISchemaFormat lets server-side apply take a number, too.
func (Amount) OpenAPISchemaFormat() string { return "int-or-string" }

// Quota bounds what a control plane stores. 0 is no bound but that of the host.
type Quota struct {
	Bytes Amount `json:"bytes,omitzero" description:"the largest size of its database, as 200Mi"`
	// Objects is the number of objects at which creations are refused, except those of its own controllers.
	Objects int64 `json:"objects,omitempty" description:"the largest number of objects; an empty one has about 180"`
}

// From names the origin of the objects of a new control plane: one of its fields.
type From struct {
	ControlPlane string      `json:"controlPlane,omitempty" description:"the ControlPlane whose objects are copied"`
	Backup       string      `json:"backup,omitempty" description:"a file or directory below planes.backupDir, as acme"`
	Journal      string      `json:"journal,omitempty" description:"a directory below planes.journal: status.journal"`
	At           metav1.Time `json:"at,omitzero" description:"the moment of the journal; the newest state without it"`
}

// CRDs says where CRDs come from.
type CRDs struct {
	ConfigMaps   []ConfigMap `json:"configMaps,omitempty" description:"labelled planes.kube-hyper-mini.io/crds=true"`
	ControlPlane string      `json:"controlPlane,omitempty" description:"a ControlPlane whose CRDs are taken"`
}

// ConfigMap names a config map of the host.
type ConfigMap struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Backup is backup of the configuration, for one control plane.
type Backup struct {
	Schedule string `json:"schedule,omitempty" description:"when, as \"0 3 * * *\" in the local time of the server"`
	Keep     int    `json:"keep,omitempty" description:"how many scheduled backups stay; the default is 7"`
}

// Journal is journal of the configuration, for one control plane.
type Journal struct {
	Interval  Amount `json:"interval,omitzero" description:"how long a change waits before it is recorded, as 1s"`
	Retention Amount `json:"retention,omitzero" description:"how far back a restore reaches, as 7d"`
}

// Values of spec.deletion.
const (
	deletionDelete  = "Delete"
	deletionArchive = "Archive"
)

// Phases of a ControlPlane.
const (
	phaseAsleep = "Asleep"
	phaseAwake  = "Awake"
	phaseFailed = "Failed"
)

// Status is the status of a ControlPlane. It is written when the control plane is made, falls
// asleep, wakes or fails.
type Status struct {
	Phase      string             `json:"phase,omitempty" description:"Asleep, Awake or Failed"`
	URL        string             `json:"url,omitempty" description:"the base URL of its API"`
	Made       bool               `json:"made,omitempty" description:"it has a directory with data"`
	Objects    int64              `json:"objects,omitempty" description:"stored objects when it last went to sleep"`
	SizeBytes  int64              `json:"sizeBytes,omitempty" description:"of its directory when it last went to sleep"`
	LastUsed   metav1.Time        `json:"lastUsed,omitzero" description:"the last request before the status was written"`
	Journal    string             `json:"journal,omitempty" description:"its directory below planes.journal of the server"`
	CRDs       string             `json:"crds,omitempty" description:"a hash of those that it had at its last start"`
	Message    string             `json:"message,omitempty" description:"why it has failed, or has no newer CRDs"`
	Conditions []metav1.Condition `json:"conditions,omitempty" patchMergeKey:"type" description:"Ready: it can be used"`
}

// object is a ControlPlane.
type object = controlplane.Object[Spec, Status]

// kind describes the type for a host.
func kind(host *config.ServerConfiguration) controlplane.Resource {
	return controlplane.Kind[Spec, Status]{
		Group: Resource.Group, Version: Resource.Version, Kind: "ControlPlane", ClusterScoped: true,
		ShortNames: []string{"cp"},
		Validate: func(_ context.Context, o, old *object) field.ErrorList {
			return validate(host, o, old)
		},
		Columns: []controlplane.KindColumn[Spec, Status]{
			{Name: "Phase", Type: "string", Value: func(o *object) any { return o.Status.Phase }},
			{Name: "Objects", Type: "string", Value: func(o *object) any {
				return orUnknown(o, strconv.FormatInt(o.Status.Objects, 10))
			}},
			{Name: "Size", Type: "string", Value: func(o *object) any { return orUnknown(o, datadir.Size(o.Status.SizeBytes)) }},
			{Name: "Last used", Type: "string", Value: func(o *object) any {
				switch {
				case o.Status.Phase == phaseAwake:
					return "now" // its requests are not written
				case o.Status.LastUsed.IsZero():
					return "never"
				}
				return duration.HumanDuration(time.Since(o.Status.LastUsed.Time))
			}},
			{Name: "Message", Type: "string", Wide: true, Value: func(o *object) any { return o.Status.Message }},
			{Name: "URL", Type: "string", Wide: true, Value: func(o *object) any { return o.Status.URL }},
		},
	}.Resource()
}

// orUnknown returns a fact that the status has from the first sleep on.
func orUnknown(o *object, fact string) string {
	if o.Status.SizeBytes == 0 {
		return "-"
	}
	return fact
}

// durationOf returns the duration of a valid text, and otherwise, if it is empty.
func durationOf(amount Amount, otherwise time.Duration) time.Duration {
	if d, err := config.ParseDuration(amount.Text); err == nil { // validate refuses other texts
		return d
	}
	return otherwise
}

// addFinalizer gives objects the finalizer, also those whose replacement has dropped it.
func addFinalizer(_ context.Context, attributes admission.Attributes) error {
	if o, ok := attributes.GetObject().(*object); ok && attributes.GetSubresource() == "" &&
		o.DeletionTimestamp.IsZero() && !slices.Contains(o.Finalizers, finalizer) {
		o.Finalizers = append(o.Finalizers, finalizer)
	}
	return nil
}
