package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	genericfeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server/flagz"
	encryptionconfigcontroller "k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	// issuer is the issuer of service account tokens, as in most clusters.
	issuer = "https://kubernetes.default.svc.cluster.local"

	// deleteWorkers is the number of workers that delete a collection.
	deleteWorkers = 32

	// encryptionPoll is the interval at which the file of the encryption configuration
	// is checked. A key rotation waits for it; upstream's default is a minute.
	encryptionPoll = time.Second

	// watchGrace is the time over which a stop spreads the end of open watches, those of
	// this process too. Upstream's longer grace spreads the clients over other servers.
	watchGrace = 20 * time.Millisecond
)

// Options is upstream's option set, filled from the configuration and checked.
type Options struct {
	upstream *options.Options
	profile  profile
	config   *config.ServerConfiguration
}

// NewOptions maps the configuration to upstream's options and validates both.
// It reads the files that the configuration names and writes nothing. Errors
// are [config.FieldError]s, joined. Feature gates are process globals: call it
// once.
func NewOptions(cfg *config.ServerConfiguration) (*Options, error) {
	upstream := options.NewOptions()
	profile := newProfile(cfg)
	upstream.Admission.GenericAdmission.DefaultOffPlugins = profile.offPlugins()
	kube.WrapWebhookClients(upstream.Admission.GenericAdmission, limitAnswers)
	upstream.Authentication.ServiceAccounts.Issuers = []string{issuer}
	upstream.Authentication.Anonymous.Allow = false // see anonymous.go
	upstream.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = watchGrace
	upstream.Etcd.EnableWatchCache = true
	// Each object of a collection is deleted by a write of its own. etcd commits
	// concurrent writes together. Upstream's default is one worker.
	upstream.Etcd.DeleteCollectionWorkers = deleteWorkers
	upstream.Etcd.EncryptionProviderConfigAutomaticReload = true
	encryptionconfigcontroller.EncryptionConfigFileChangePollDuration = encryptionPoll

	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	var sections cliflag.NamedFlagSets
	upstream.AddFlags(&sections)
	for _, section := range sections.FlagSets {
		flags.AddFlagSet(section)
	}
	upstream.Flagz = flagz.NamedFlagSetsReader{FlagSets: sections} // served at /flagz
	profile.addFlags(flags)
	o := &Options{upstream: upstream, profile: profile, config: cfg}
	if gate := string(genericfeatures.UnknownVersionInteroperabilityProxy); cfg.APIServer.FeatureGates[gate] {
		return nil, &config.FieldError{Path: "apiServer.featureGates." + gate, Message: "cannot be on: it connects to etcd by its address, which the embedded etcd does not have"}
	}
	if err := o.apply(flags); err != nil {
		return nil, err
	}
	if err := o.matchEnablement(); err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := errors.Join(o.checkFiles(), o.checkEncryptedResources()); err != nil {
		return nil, err
	}
	return o, nil
}

// settings returns the fields that set a flag of upstream.
func (o *Options) settings() []config.Field {
	api := &o.config.APIServer
	list := []config.Field{
		{Path: "apiServer.runtimeConfig", Flag: "runtime-config", Value: pairs(runtimeConfig(api.RuntimeConfig))},
		{Path: "apiServer.featureGates", Flag: "feature-gates", Value: pairs(featureGates(api.FeatureGates))},
	}
	for _, field := range o.config.Fields() {
		if field.Flag != "" {
			list = append(list, field)
		}
	}
	if api.Authorization.ConfigFile == "" && !o.config.HasArgument("authorization-mode", "authorization-config") {
		list = append(list, config.Field{Path: "apiServer.authorization", Flag: "authorization-mode", Value: modes.ModeRBAC})
	}
	return list
}

// owned are flags that the server sets itself, and what to use instead.
var owned = map[string]string{
	"secure-port":                        "serving.port",
	"etcd-servers":                       "etcd.external.endpoints",
	"etcd-cafile":                        "etcd.external.caFile",
	"etcd-certfile":                      "etcd.external.certFile",
	"etcd-keyfile":                       "etcd.external.keyFile",
	"tls-cert-file":                      "serving.certFile",
	"tls-private-key-file":               "serving.keyFile",
	"cert-dir":                           "the files in <dataDir>/pki",
	"client-ca-file":                     "apiServer.authentication.clientCAFile, or <dataDir>/pki/client-ca.crt",
	"requestheader-client-ca-file":       "the files in <dataDir>/pki",
	"proxy-client-cert-file":             "the files in <dataDir>/pki",
	"proxy-client-key-file":              "the files in <dataDir>/pki",
	"etcd-readycheck-timeout":            "etcd-healthcheck-timeout, which is for both",
	"requestheader-allowed-names":        "the files in <dataDir>/pki: one name is allowed, that of front-proxy-client.crt",
	"requestheader-username-headers":     "X-Remote-User, which upstream's servers send",
	"requestheader-uid-headers":          "X-Remote-Uid, which upstream's servers send",
	"requestheader-group-headers":        "X-Remote-Group, which upstream's servers send",
	"requestheader-extra-headers-prefix": "X-Remote-Extra-, which upstream's servers send",
	"service-account-key-file":           "apiServer.authentication.serviceAccountKeyFiles",
	"service-account-signing-key-file":   "the files in <dataDir>/pki",
	"anonymous-auth":                     "apiServer.authentication.configFile with an anonymous section",
	"logging-format":                     "logging.format",
	"v":                                  "logging.verbosity",
	"vmodule":                            "logging.verbosity",
}

// unsupported are flags of upstream that would have no effect, and the reason.
var unsupported = map[string]string{
	"etcd-servers-overrides": "is not supported: all resources are stored in the same etcd, that of etcd.external.endpoints or the embedded one",
}

func (o *Options) apply(flags *pflag.FlagSet) error {
	var errs []error
	instead := maps.Clone(owned)
	for _, s := range o.settings() {
		instead[s.Flag] = s.Path
		if s.Value == "" {
			continue
		}
		if err := flags.Set(s.Flag, s.Value); err != nil {
			errs = append(errs, &config.FieldError{Path: s.Path, Message: err.Error()})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.config.APIServer.Flags)) {
		path := "apiServer.flags." + name
		switch field, isOwned := instead[name]; {
		case strings.HasPrefix(name, "-"):
			errs = append(errs, &config.FieldError{Path: path, Message: "write the flag's name without dashes"})
		case isOwned:
			errs = append(errs, &config.FieldError{Path: path, Message: "is set by the server; use " + field})
		case unsupported[name] != "":
			errs = append(errs, &config.FieldError{Path: path, Message: unsupported[name]})
		case flags.Lookup(name) == nil:
			errs = append(errs, &config.FieldError{Path: path, Message: "no such flag" + config.Suggest(name, flagNames(flags)) +
				"; it must be one of kube-apiserver's generic flags"})
		default:
			if err := flags.Set(name, string(o.config.APIServer.Flags[name])); err != nil {
				errs = append(errs, &config.FieldError{Path: path, Message: err.Error()})
			}
		}
	}
	for _, argument := range o.config.Arguments() {
		if err := flags.Set(argument.Name, argument.Value); err != nil {
			errs = append(errs, &config.FieldError{Path: "--" + argument.Name, Message: err.Error()})
		}
	}
	return errors.Join(errs...)
}

// Storage returns the configuration of the storage from the flags etcd-prefix,
// etcd-compaction-interval and etcd-healthcheck-timeout.
func (o *Options) Storage() storage.Config {
	etcd := o.upstream.Etcd.StorageConfig
	var namespaceBytes int64 // an external etcd has a quota of its own
	if len(o.config.Etcd.External.Endpoints) == 0 {
		namespaceBytes = o.config.Etcd.Embedded.QuotaBackend.Value() / 100 * int64(o.config.Limits.NamespacePercent)
	}
	return storage.Config{
		Prefix: etcd.Prefix, CompactionInterval: etcd.CompactionInterval,
		Timeout: etcd.HealthcheckTimeout, NamespaceBytes: namespaceBytes,
	}
}

// validate runs upstream's validation. That needs keys that the identity makes later, so
// validate passes it substitutes.
func (o *Options) validate() error {
	if err := o.upstream.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return &config.FieldError{Path: "apiServer.featureGates", Message: err.Error()}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key for the validation: %w", err)
	}
	check := *o.upstream
	if check.ServiceAccountIssuer, err = serviceaccount.JWTTokenGenerator(issuer, key); err != nil {
		return fmt.Errorf("make a token issuer for the validation: %w", err)
	}
	serviceAccounts := *o.upstream.Authentication.ServiceAccounts
	serviceAccounts.KeyFiles = []string{"service-account.key"}
	authentication := *o.upstream.Authentication
	authentication.ServiceAccounts = &serviceAccounts
	check.Authentication = &authentication
	etcd := *o.upstream.Etcd
	etcd.StorageConfig.Transport.ServerList = []string{embeddedEndpoint}
	if etcd.EncryptionProviderConfigFilepath == "" {
		etcd.EncryptionProviderConfigAutomaticReload = false
	}
	check.Etcd = &etcd
	var errs []error
	for _, err := range append(check.Validate(), o.profile.validate()...) {
		errs = append(errs, &config.FieldError{Path: o.fieldOf(err), Message: o.nameFields(err.Error())})
	}
	return errors.Join(errs...)
}

// fieldOf returns the path of the field that an error of upstream's validation is about:
// the one whose flag, key or plugin the error names; "apiServer" if it names none.
func (o *Options) fieldOf(err error) string {
	named := kube.WordsOf(err)
	for _, argument := range o.config.Arguments() {
		if named[argument.Name] {
			return "--" + argument.Name
		}
	}
	for _, s := range o.settings() {
		if named[s.Flag] {
			return s.Path
		}
	}
	if kube.IsAboutAuthorizationFile(err) {
		return "apiServer.authorization.configFile"
	}
	api := &o.config.APIServer
	for _, name := range slices.Sorted(maps.Keys(api.Flags)) {
		if named[name] {
			return "apiServer.flags." + name
		}
	}
	for _, key := range slices.Sorted(maps.Keys(api.RuntimeConfig)) {
		if kube.NamesVersion(named, key) {
			return "apiServer.runtimeConfig." + key
		}
	}
	isNamed := func(name string) bool { return named[name] }
	switch {
	case slices.ContainsFunc(api.Admission.EnablePlugins, isNamed):
		return "apiServer.admission.enablePlugins"
	case slices.ContainsFunc(api.Admission.DisablePlugins, isNamed):
		return "apiServer.admission.disablePlugins"
	}
	return "apiServer"
}

// nameFields replaces the names of flags in text by the fields that set them.
func (o *Options) nameFields(text string) string {
	for _, s := range o.settings() {
		text = kube.NameField(text, s.Flag, s.Path)
	}
	return text
}

// featureGates adds the gates that differ from upstream's defaults. Storage version
// migration is served, so its controller must run. The proxy to API servers of other
// versions dials etcd by its address.
func featureGates(configured map[string]bool) map[string]bool {
	gates := map[string]bool{
		string(features.StorageVersionMigrator):                     true,
		string(genericfeatures.UnknownVersionInteroperabilityProxy): false,
	}
	maps.Copy(gates, configured)
	return gates
}

func pairs[V any](m map[string]V) string {
	list := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%s=%v", key, m[key]))
	}
	return strings.Join(list, ",")
}

func flagNames(flags *pflag.FlagSet) []string {
	var list []string
	flags.VisitAll(func(f *pflag.Flag) { list = append(list, f.Name) })
	return list
}
