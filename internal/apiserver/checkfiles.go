package apiserver

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/util/cert"
	tracingv1 "k8s.io/component-base/tracing/api/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// Upstream fact: the parts of the options that read files
//
// Mirrors: k8s.io/apiserver/pkg/server/options/encryptionconfig.LoadEncryptionConfig
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.loadConfig
//   k8s.io/kubernetes/pkg/kubeapiserver/options.BuiltInAuthenticationOptions.ToAuthenticationConfig
// Why: Kubernetes reads the files when it applies the options, after the data
//   directory was written, and connects to KMS plugins.
// Gain: mistakes in a file are reported with its name before anything is
//   written.
// Breaks: a file is accepted by the check and refused by the start, or the
//   other way round.

// checkFiles reads the files in upstream's formats, as the start does. Upstream reports
// errors in them only when it applies the options: the data directory exists by then,
// and these errors look like temporary failures.
func (o *Options) checkFiles() error {
	checks := map[string]func(path string) error{
		"apiServer.admission.configFile":        o.checkAdmission,
		"apiServer.authentication.configFile":   o.checkAuthentication,
		"apiServer.authentication.clientCAFile": checkAuthorities,
		"apiServer.audit.policyFile":            checkAudit,
		"apiServer.encryption.configFile":       checkEncryption,
		"apiServer.tracing.configFile":          checkTracing,
		"serving.caFile":                        checkAuthorities,
	}
	var errs []error
	for _, field := range o.config.Fields() {
		check := checks[field.Path]
		if strings.HasPrefix(field.Path, "apiServer.authentication.serviceAccountKeyFiles[") {
			check = checkTokenKeys
		}
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

func checkAuthorities(path string) error {
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

// checkAuthentication ignores the files of the identity, which may not exist yet.
func (o *Options) checkAuthentication(string) error {
	authentication := *o.upstream.Authentication
	authentication.ClientCert, authentication.RequestHeader, authentication.ServiceAccounts = nil, nil, nil
	_, err := authentication.ToAuthenticationConfig()
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

// checkEncryption replaces encryptionconfig.LoadEncryptionConfig, which also connects to
// KMS plugins.
func checkEncryption(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	apiserverinstall.Install(scheme)
	object, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data)
	if err != nil {
		return err
	}
	encryption, ok := object.(*apiserver.EncryptionConfiguration)
	if !ok {
		return fmt.Errorf("the file has a %T, not an EncryptionConfiguration", object)
	}
	return validation.ValidateEncryptionConfiguration(encryption, true).ToAggregate()
}

func checkTracing(path string) error {
	tracing, err := genericoptions.ReadTracingConfiguration(path)
	if err != nil {
		return err
	}
	return tracingv1.ValidateTracingConfiguration(tracing, utilfeature.DefaultFeatureGate, nil).ToAggregate()
}
