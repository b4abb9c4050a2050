package apiserver

import (
	"cmp"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	genericfeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server/flagz"
	encryptionconfigcontroller "k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	cliflag "k8s.io/component-base/cli/flag"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

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

// Settings are the parts of the configuration file that the API server reads. Their paths in
// errors are those of the file.
type Settings struct {
	APIServer config.APIServer
	Serving   config.Serving
	External  config.ExternalEtcd // with endpoints if the store is run elsewhere
	Limits    config.Limits
	Profile   string // apis.profile
	// NamespaceBytes is what the objects of one namespace may take of the store; 0 for no bound.
	NamespaceBytes int64
	// Arguments are flags of kube-apiserver's command line, which override the others.
	Arguments []config.Argument
}

// has reports whether one of the flags is among the arguments.
func (s Settings) has(names ...string) bool {
	return slices.ContainsFunc(s.Arguments, func(a config.Argument) bool { return slices.Contains(names, a.Name) })
}

// Options is upstream's option set, filled from the settings and checked.
type Options struct {
	upstream *options.Options
	profile  profile
	settings Settings
}

// NewOptions maps the settings to upstream's options and validates both.
// It reads the files that the settings name and writes nothing. Errors
// are [config.FieldError]s, joined. Feature gates are process globals: see
// [SetFeatureGates].
func NewOptions(settings Settings) (*Options, error) {
	processGates.Lock()
	defer processGates.Unlock()
	o := &Options{upstream: options.NewOptions(), profile: newProfile(settings.Profile), settings: settings}
	var sections cliflag.NamedFlagSets
	o.upstream.AddFlags(&sections)
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, section := range sections.FlagSets {
		flags.AddFlagSet(section)
	}
	o.upstream.Flagz = flagz.NamedFlagSetsReader{FlagSets: sections} // served at /flagz
	o.profile.addFlags(flags)
	if gate := string(genericfeatures.UnknownVersionInteroperabilityProxy); settings.APIServer.FeatureGates[gate] {
		return nil, &config.FieldError{Path: "apiServer.featureGates." + gate, Message: "cannot be on: it connects to " +
			"etcd by its address, which the embedded etcd does not have"}
	}
	o.setDefaults()
	o.setFields()
	if err := o.setFlags(flags); err != nil {
		return nil, err
	}
	if err := o.matchEnablement(); err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.upstream.Etcd.EncryptionProviderConfigAutomaticReload = true // complete sets it back without a file
	if err := errors.Join(o.checkFiles(), o.checkEncryptedResources()); err != nil {
		return nil, err
	}
	return o, nil
}

// setDefaults sets what differs from upstream's defaults, and what has no field.
func (o *Options) setDefaults() {
	u := o.upstream
	u.Admission.GenericAdmission.DefaultOffPlugins = o.profile.offPlugins()
	kube.WrapWebhookClients(u.Admission.GenericAdmission, limitAnswers)
	kube.ShareConditions(u.Admission.GenericAdmission)
	u.Authentication.ServiceAccounts.Issuers = []string{issuer}
	u.Authentication.Anonymous.Allow = false // see allowAnonymousHealth
	u.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = watchGrace
	u.Etcd.EnableWatchCache = true
	u.Etcd.StorageConfig.Transport.ServerList = []string{embeddedEndpoint}
	// Each object of a collection is deleted by a write of its own. etcd commits
	// concurrent writes together. Upstream's default is one worker.
	u.Etcd.DeleteCollectionWorkers = deleteWorkers
	encryptionconfigcontroller.EncryptionConfigFileChangePollDuration = encryptionPoll
	// complete replaces them; upstream's validation needs some.
	keys := NewTokenKeys()
	u.ServiceAccountIssuer, u.Authentication.ServiceAccounts.ExternalPublicKeysGetter = keys, keys
	if o.settings.APIServer.Authorization.ConfigFile == "" &&
		!o.settings.has("authorization-mode", "authorization-config") {
		u.Authorization.Modes = []string{modes.ModeRBAC}
	}
}

// setFields sets the options that have a field in the configuration file.
func (o *Options) setFields() {
	u, api := o.upstream, &o.settings.APIServer
	u.Admission.GenericAdmission.ConfigFile = api.Admission.ConfigFile
	u.Admission.GenericAdmission.EnablePlugins = api.Admission.EnablePlugins
	u.Admission.GenericAdmission.DisablePlugins = api.Admission.DisablePlugins
	u.APIEnablement.RuntimeConfig = runtimeConfig(api.RuntimeConfig)
	u.Audit.PolicyFile = api.Audit.PolicyFile
	log := &u.Audit.LogOptions
	log.Path, log.MaxAge = api.Audit.LogPath, api.Audit.LogMaxAge
	log.MaxBackups, log.MaxSize = api.Audit.LogMaxBackup, api.Audit.LogMaxSize
	u.Authentication.AuthenticationConfigFile = api.Authentication.ConfigFile
	u.Authentication.ServiceAccounts.MaxExpiration = api.Authentication.MaxTokenExpiration.Duration
	u.Authorization.AuthorizationConfigurationFile = api.Authorization.ConfigFile
	u.Etcd.EncryptionProviderConfigFilepath = api.Encryption.ConfigFile
	u.Etcd.StorageConfig.Prefix = o.settings.External.Prefix
	u.Features.EnablePriorityAndFairness = api.FlowControl.Enabled
	u.Traces.ConfigFile = api.Tracing.ConfigFile
	u.SecureServing.BindAddress = net.ParseIP(o.settings.Serving.BindAddress)
	u.GenericServerRunOptions.ExternalHost = o.settings.Serving.ExternalHost
}

// fields are the flags that setFields sets.
var fields = map[string]string{
	"admission-control-config-file":        "apiServer.admission.configFile",
	"enable-admission-plugins":             "apiServer.admission.enablePlugins",
	"disable-admission-plugins":            "apiServer.admission.disablePlugins",
	"runtime-config":                       "apiServer.runtimeConfig",
	"feature-gates":                        "apiServer.featureGates",
	"audit-policy-file":                    "apiServer.audit.policyFile",
	"audit-log-path":                       "apiServer.audit.logPath",
	"audit-log-maxage":                     "apiServer.audit.logMaxAge",
	"audit-log-maxbackup":                  "apiServer.audit.logMaxBackup",
	"audit-log-maxsize":                    "apiServer.audit.logMaxSize",
	"authentication-config":                "apiServer.authentication.configFile",
	"service-account-max-token-expiration": "apiServer.authentication.maxTokenExpiration",
	"authorization-config":                 "apiServer.authorization.configFile",
	"authorization-mode":                   "apiServer.authorization",
	"encryption-provider-config":           "apiServer.encryption.configFile",
	"etcd-prefix":                          "etcd.external.prefix",
	"enable-priority-and-fairness":         "apiServer.flowControl.enabled",
	"tracing-config-file":                  "apiServer.tracing.configFile",
	"bind-address":                         "serving.bindAddress",
	"external-hostname":                    "serving.externalHost",
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
	"requestheader-allowed-names":        "the name of front-proxy-client.crt, the only one that is allowed",
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
	"etcd-servers-overrides": "is not supported: all resources are stored in the same etcd, that of " +
		"etcd.external.endpoints or the embedded one",
}

// setFlags sets the flags in apiServer.flags, and the arguments.
func (o *Options) setFlags(flags *pflag.FlagSet) error {
	api := &o.settings.APIServer
	var errs []error
	set := func(path, name, value string) {
		if err := flags.Set(name, value); err != nil {
			errs = append(errs, &config.FieldError{Path: path, Message: err.Error()})
		}
	}
	set("apiServer.featureGates", "feature-gates", pairs(featureGates(api.FeatureGates)))
	for _, name := range slices.Sorted(maps.Keys(api.Flags)) {
		path := "apiServer.flags." + name
		refuse := func(message string) { errs = append(errs, &config.FieldError{Path: path, Message: message}) }
		switch field := cmp.Or(owned[name], fields[name]); {
		case strings.HasPrefix(name, "-"):
			refuse("write the flag's name without dashes")
		case field != "":
			refuse("is set by the server; use " + field)
		case unsupported[name] != "":
			refuse(unsupported[name])
		case flags.Lookup(name) == nil:
			refuse("no such flag" + config.Suggest(name, flagNames(flags)) +
				"; it must be one of kube-apiserver's generic flags")
		default:
			values := strings.Split(string(api.Flags[name]), "\n")
			if value := flags.Lookup(name).Value; len(values) > 1 && !isList(value) {
				refuse("takes one value, not a list")
				continue
			}
			for _, value := range values {
				set(path, name, value)
			}
		}
	}
	for _, argument := range o.settings.Arguments {
		set("--"+argument.Name, argument.Name, argument.Value)
	}
	return errors.Join(errs...)
}

// Storage returns the configuration of the storage from the flags etcd-prefix,
// etcd-compaction-interval and etcd-healthcheck-timeout.
func (o *Options) Storage() storage.Config {
	etcd := o.upstream.Etcd.StorageConfig
	return storage.Config{
		Prefix: etcd.Prefix, CompactionInterval: etcd.CompactionInterval,
		Timeout: etcd.HealthcheckTimeout, NamespaceBytes: o.settings.NamespaceBytes,
	}
}

// validate runs upstream's validation, of each section by itself so that an error has the path
// of its section.
func (o *Options) validate() error {
	u := o.upstream
	var errs []error
	known := map[string]bool{}
	report := func(path string, found []error) {
		for _, err := range found {
			if !known[err.Error()] {
				known[err.Error()] = true
				errs = append(errs, &config.FieldError{Path: path, Message: err.Error()})
			}
		}
	}
	report("apiServer.runtimeConfig", u.APIEnablement.Validate(legacyscheme.Scheme, apiextensionsapiserver.Scheme,
		aggregatorscheme.Scheme))
	report("apiServer.authentication", u.Authentication.Validate())
	authorization := "apiServer.authorization"
	if u.Authorization.AuthorizationConfigurationFile != "" {
		authorization += ".configFile"
	}
	report(authorization, u.Authorization.Validate())
	report("apiServer.audit", u.Audit.Validate())
	report("apiServer.admission", u.Admission.Validate())
	report("apiServer.flags", append(u.Validate(), o.profile.validate()...)) // of all sections, and of flags
	_, badVersion := cliflag.TLSVersion(u.SecureServing.MinTLSVersion)
	_, badSuite := cliflag.TLSCipherSuites(u.SecureServing.CipherSuites)
	if err := cmp.Or(badVersion, badSuite); err != nil {
		report("apiServer.flags", []error{err}) // upstream checks them when it has written
	}
	longest := u.Authentication.ServiceAccounts.MaxExpiration
	if longest != 0 && (longest < time.Hour || longest > 1<<32*time.Second) {
		errs = append(errs, &config.FieldError{Path: fields["service-account-max-token-expiration"],
			Message: "must be between 1h and 2^32 seconds"})
	}
	return errors.Join(errs...)
}

// isList reports whether a flag can be set several times.
func isList(value pflag.Value) bool {
	_, slice := value.(pflag.SliceValue)
	return slice || value.Type() == "namedCertKey"
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

func pairs(gates map[string]bool) string { return cliflag.NewMapStringBool(&gates).String() }

func flagNames(flags *pflag.FlagSet) []string {
	var list []string
	flags.VisitAll(func(f *pflag.Flag) { list = append(list, f.Name) })
	return list
}
