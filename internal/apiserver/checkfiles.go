package apiserver

import (
	"errors"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/util/cert"
	tracingv1 "k8s.io/component-base/tracing/api/v1"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// checkFiles reads the files in upstream's formats, as the start does. Upstream reports
// errors in them only when it applies the options: the data directory exists by then,
// and these errors look like temporary failures.
func (o *Options) checkFiles() error {
	checks := o.fileChecks()
	var errs []error
	for _, field := range o.config.Fields() {
		check := checks[field.Format]
		if check == nil || field.Value == "" {
			continue
		}
		if err := check(field.Value); err != nil {
			text := strings.ReplaceAll(err.Error(), "\n", "; ")
			if !strings.Contains(text, field.Value) {
				text = field.Value + ": " + text
			}
			errs = append(errs, &config.FieldError{Path: field.Path, Message: text})
		}
	}
	return errors.Join(errs...)
}

// fileChecks are the checks of files, by format.
func (o *Options) fileChecks() map[config.Format]func(path string) error {
	return map[config.Format]func(path string) error{
		config.FormatAdmissionConfiguration:      o.checkAdmission,
		config.FormatAuditPolicy:                 checkAudit,
		config.FormatAuthenticationConfiguration: func(string) error { return kube.CheckAuthenticationFile(o.upstream.Authentication) },
		config.FormatCertificates:                checkCertificates,
		config.FormatEncryptionConfiguration:     kube.CheckEncryptionFile,
		config.FormatPublicKeys:                  checkTokenKeys,
		config.FormatTracingConfiguration:        checkTracing,
	}
}

func checkCertificates(path string) error {
	_, err := cert.CertsFromFile(path)
	return err
}

func checkTokenKeys(path string) error {
	_, err := pki.ReadPublicKeys(path)
	return err
}

func (o *Options) checkAdmission(path string) error {
	scheme := runtime.NewScheme()
	apiserverinstall.Install(scheme)
	_, err := admission.ReadAdmissionConfiguration(o.upstream.Admission.GenericAdmission.Plugins.Registered(), path, scheme)
	return err
}

// checkAudit is strict. Upstream warns about unknown fields and ignores them: with a
// misspelt rule, events would be missing later.
func checkAudit(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := runtime.Decode(serializer.NewCodecFactory(audit.Scheme, serializer.EnableStrict).UniversalDecoder(), data); err != nil {
		return err
	}
	_, err = policy.LoadPolicyFromFile(path)
	return err
}

func checkTracing(path string) error {
	tracing, err := genericoptions.ReadTracingConfiguration(path)
	if err != nil {
		return err
	}
	return tracingv1.ValidateTracingConfiguration(tracing, utilfeature.DefaultFeatureGate, nil).ToAggregate()
}
