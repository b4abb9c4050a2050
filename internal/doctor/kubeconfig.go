package doctor

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// credentials checks a kubeconfig.
type credentials struct {
	path   string
	config *api.Config
	remedy string
}

func (k *credentials) check(add func(Finding)) {
	for _, name := range slices.Sorted(maps.Keys(k.config.AuthInfos)) {
		if problem := k.user(k.config.AuthInfos[name]); problem != "" {
			add(Finding{Severity: Failure, Object: k.path,
				Problem: fmt.Sprintf("the credentials of user %q: %s", name, problem), Remedy: k.remedy})
		}
	}
}

// user returns why the credentials are not accepted, or "".
func (k *credentials) user(info *api.AuthInfo) string {
	data := info.ClientCertificateData
	if len(data) == 0 && info.ClientCertificate != "" {
		var err error
		if data, err = os.ReadFile(info.ClientCertificate); err != nil {
			return err.Error()
		}
	}
	if list, err := cert.ParseCertsPEM(data); err == nil { // otherwise there are none
		crt := list[0]
		switch {
		case time.Now().After(crt.NotAfter):
			return "the certificate expired at " + crt.NotAfter.Local().Format(time.DateTime)
		case time.Now().Before(crt.NotBefore):
			return "the certificate is not valid before " + crt.NotBefore.Local().Format(time.DateTime)
		}
	}
	return ""
}
