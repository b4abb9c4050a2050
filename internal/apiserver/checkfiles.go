package apiserver

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
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
	api := &o.settings.APIServer
	var errs []error
	check := func(field, file string, check func(path string) error) {
		if file == "" {
			return
		}
		if err := check(file); err != nil {
			text := strings.ReplaceAll(err.Error(), "\n", "; ")
			if !strings.Contains(text, file) {
				text = file + ": " + text
			}
			errs = append(errs, &config.FieldError{Path: field, Message: text})
		}
	}
	check("serving.caFile", o.settings.Serving.CAFile, checkCertificates)
	check("apiServer.admission.configFile", api.Admission.ConfigFile, o.checkAdmission)
	authentication := o.upstream.Authentication
	checkIssuers := func(string) error { return kube.CheckAuthenticationFile(authentication) }
	check("apiServer.authentication.configFile", api.Authentication.ConfigFile, checkIssuers)
	check("apiServer.flags.oidc-issuer-url", authentication.OIDC.IssuerURL, checkIssuers)
	check("apiServer.flags.token-auth-file", authentication.TokenFile.TokenFile, func(path string) error {
		_, err := tokenfile.NewCSV(path)
		return err
	})
	readable := func(path string) error {
		_, err := os.ReadFile(path)
		return err
	}
	check("apiServer.flags.authentication-token-webhook-config-file", authentication.WebHook.ConfigFile, readable)
	check("apiServer.flags.egress-selector-config-file", o.upstream.EgressSelector.ConfigFile, readable)
	check("apiServer.authentication.clientCAFile", api.Authentication.ClientCAFile, checkCertificates)
	check("apiServer.audit.policyFile", api.Audit.PolicyFile, checkAudit)
	check("apiServer.encryption.configFile", api.Encryption.ConfigFile, kube.CheckEncryptionFile)
	check("apiServer.tracing.configFile", api.Tracing.ConfigFile, checkTracing)
	for i, file := range api.Authentication.ServiceAccountKeyFiles {
		check(fmt.Sprintf("apiServer.authentication.serviceAccountKeyFiles[%d]", i), file, checkTokenKeys)
	}
	return errors.Join(errs...)
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
	_, err := admission.ReadAdmissionConfiguration(
		o.upstream.Admission.GenericAdmission.Plugins.Registered(), path, scheme)
	return err
}

// checkAudit is strict. Upstream warns about unknown fields and ignores them: with a
// misspelt rule, events would be missing later.
func checkAudit(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := runtime.Decode(serializer.NewCodecFactory(audit.Scheme,
		serializer.EnableStrict).UniversalDecoder(), data); err != nil {
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
