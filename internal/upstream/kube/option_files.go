package kube

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/cel"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
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
// Breaks: a file is accepted by the check and refused by the start, or the other way
//   round. Tests: TestBadFiles.

// CheckAuthenticationFile checks the authentication file, or the flags for one issuer, of the options. It
// ignores the files of the identity, which may not exist yet.
func CheckAuthenticationFile(options *kubeoptions.BuiltInAuthenticationOptions) error {
	authentication := *options
	authentication.ClientCert, authentication.RequestHeader, authentication.ServiceAccounts = nil, nil, nil
	read, err := authentication.ToAuthenticationConfig()
	if err != nil {
		return err
	}
	return validation.ValidateAuthenticationConfiguration(cel.NewDefaultCompiler(), read.AuthenticationConfig,
		options.ServiceAccounts.Issuers).ToAggregate()
}

// CheckEncryptionFile checks an encryption file without connecting to KMS plugins, as
// encryptionconfig.LoadEncryptionConfig does.
func CheckEncryptionFile(path string) error {
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
