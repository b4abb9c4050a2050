package planes

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// validate returns what is wrong with an object. old is nil at a creation.
func validate(host *config.ServerConfiguration, o, old *object) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if old == nil {
		errs = validateNew(o, spec.Child("from"))
	}
	for name, choice := range map[string]struct {
		value string
		of    []string
	}{
		"profile":  {o.Spec.Profile, []string{config.ProfileGeneric, config.ProfileKubernetes}},
		"deletion": {o.Spec.Deletion, []string{deletionDelete, deletionArchive}},
	} {
		if choice.value != "" && !slices.Contains(choice.of, choice.value) {
			errs = append(errs, field.NotSupported(spec.Child(name), choice.value, choice.of))
		}
	}
	errs = append(errs, validateDuration(spec.Child("sleepAfter"), o.Spec.SleepAfter, time.Second)...)
	errs = append(errs, validateDuration(spec.Child("lifetime"), o.Spec.Lifetime, time.Second)...)
	errs = append(errs, o.Spec.Quota.validate(spec.Child("quota"))...)
	errs = append(errs, o.Spec.From.validate(host, spec.Child("from"))...)
	errs = append(errs, o.Spec.CRDs.validate(spec.Child("crds"))...)
	errs = append(errs, o.Spec.Backup.validate(spec.Child("backup"))...)
	if journal, path := o.Spec.Journal, spec.Child("journal"); journal != nil {
		if host.Planes.Journal == "" {
			errs = append(errs, field.Forbidden(path, noJournals))
		}
		errs = append(errs, validateDuration(path.Child("interval"), journal.Interval, 100*time.Millisecond)...)
		errs = append(errs, validateDuration(path.Child("retention"), journal.Retention, time.Minute)...)
	}
	if old != nil && !equality.Semantic.DeepEqual(old.Spec.From, o.Spec.From) {
		reason := "is for new control planes: make another one"
		if old.DeletionTimestamp != nil {
			reason = "is for new control planes, and this ControlPlane is being deleted: make it again when it is gone"
		}
		errs = append(errs, field.Forbidden(spec.Child("from"), reason))
	}
	if of := o.Spec.CRDs.ControlPlane; of != "" && of == o.Name && (old == nil || old.Spec.CRDs.ControlPlane != of) {
		errs = append(errs, field.Invalid(spec.Child("crds", "controlPlane"), of, itself))
	}
	if old != nil && old.Status.CRDs != "" && old.Spec.CRDs.ControlPlane != o.Spec.CRDs.ControlPlane {
		errs = append(errs, field.Forbidden(spec.Child("crds", "controlPlane"),
			"is read before the first start, which was: name config maps, or apply the CRDs in the control plane"))
	}
	return errs
}

// validateNew returns what is wrong with an object at its creation only. from is the path of its
// origin.
func validateNew(o *object, from *field.Path) (errs field.ErrorList) {
	for _, message := range validation.IsDNS1123Label(o.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), o.Name, message+"; it is part of the URL"))
	}
	if name := o.Spec.From.ControlPlane; name != "" && name == o.Name {
		errs = append(errs, field.Invalid(from.Child("controlPlane"), name, itself))
	}
	if at := o.Spec.From.At; at.After(time.Now()) {
		errs = append(errs, field.Invalid(from.Child("at"), at.UTC().Format(time.RFC3339),
			"is in the future: give an earlier time, or leave it out for the newest state"))
	}
	return errs
}

const itself = "is itself: name another ControlPlane"

const noJournals = "the server has no journals of control planes: set planes.journal in its configuration"

func validateDuration(path *field.Path, amount Amount, least time.Duration) field.ErrorList {
	text := amount.Text
	if text == "" {
		return nil
	}
	if d, err := config.ParseDuration(text); err != nil {
		return field.ErrorList{field.Invalid(path, text, err.Error())}
	} else if d < least {
		return field.ErrorList{field.Invalid(path, text, "at least "+least.String())}
	}
	return nil
}

func (q Quota) validate(path *field.Path) (errs field.ErrorList) {
	if q.Objects < 0 {
		errs = append(errs, field.Invalid(path.Child("objects"), q.Objects, "at least 1, or 0 for no bound"))
	}
	if q.Bytes.Text == "" {
		return errs
	}
	if bytes, err := resource.ParseQuantity(q.Bytes.Text); err != nil {
		errs = append(errs, field.Invalid(path.Child("bytes"), q.Bytes.Text, "is not a quantity: write it as 200Mi"))
	} else if bytes.Value() < config.MinQuota {
		errs = append(errs, field.Invalid(path.Child("bytes"), q.Bytes.Text, "at least 64Mi"))
	}
	return errs
}

func (f From) validate(host *config.ServerConfiguration, path *field.Path) (errs field.ErrorList) {
	set := 0
	for _, value := range []string{f.ControlPlane, f.Backup, f.Journal} {
		if value != "" {
			set++
		}
	}
	if set > 1 {
		errs = append(errs, field.Forbidden(path, "controlPlane, backup and journal exclude each other"))
	}
	if f.ControlPlane != "" && len(validation.IsDNS1123Label(f.ControlPlane)) > 0 {
		errs = append(errs, field.Invalid(path.Child("controlPlane"), f.ControlPlane, "is not the name of a ControlPlane"))
	}
	if f.Backup != "" && !isBelow(f.Backup) {
		errs = append(errs, field.Invalid(path.Child("backup"), f.Backup,
			"is not a path below planes.backupDir of the server, as acme or acme/FILE"))
	}
	switch {
	case f.Journal == "" && !f.At.IsZero():
		errs = append(errs, field.Forbidden(path.Child("at"), "is a moment of a journal: set journal"))
	case f.Journal != "" && host.Planes.Journal == "":
		errs = append(errs, field.Forbidden(path.Child("journal"), noJournals))
	case f.Journal != "" && !isBelow(f.Journal):
		errs = append(errs, field.Invalid(path.Child("journal"), f.Journal,
			"is not a path below planes.journal of the server"))
	}
	return errs
}

// isBelow reports whether joining the path to a directory, or to the URL of a bucket, names
// something below it on every system.
func isBelow(path string) bool {
	return filepath.IsLocal(path) && !strings.ContainsAny(path, "\\:?#%") &&
		!slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return strings.Trim(part, ".") == "" })
}

func (c CRDs) validate(path *field.Path) (errs field.ErrorList) {
	for i, of := range c.ConfigMaps {
		if len(validation.IsDNS1123Label(of.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(of.Name)) > 0 {
			errs = append(errs, field.Invalid(path.Child("configMaps").Index(i), of.Namespace+"/"+of.Name,
				"is not the namespace and name of a config map"))
		}
	}
	if c.ControlPlane != "" && len(validation.IsDNS1123Label(c.ControlPlane)) > 0 {
		errs = append(errs, field.Invalid(path.Child("controlPlane"), c.ControlPlane, "is not the name of a ControlPlane"))
	}
	return errs
}

func (b Backup) validate(path *field.Path) (errs field.ErrorList) {
	if b.Keep < 0 {
		errs = append(errs, field.Invalid(path.Child("keep"), b.Keep, "at least 1, or 0 for the default"))
	}
	if err := config.CheckSchedule(b.Schedule); err != nil {
		errs = append(errs, field.Invalid(path.Child("schedule"), b.Schedule, err.Error()))
	}
	return errs
}
