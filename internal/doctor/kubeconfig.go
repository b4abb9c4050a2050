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

// credentials reports certificates of a kubeconfig that are not accepted.
func credentials(add func(Finding), path string, config *api.Config, remedy string) {
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		info := config.AuthInfos[name]
		data, severity, problem := info.ClientCertificateData, Failure, ""
		if len(data) == 0 && info.ClientCertificate != "" {
			var err error
			if data, err = os.ReadFile(info.ClientCertificate); err != nil {
				problem = err.Error()
			}
		}
		if list, err := cert.ParseCertsPEM(data); err == nil { // otherwise there are none
			severity, problem = life(time.Now(), list[0].NotBefore, list[0].NotAfter)
		}
		if severity == Failure && problem != "" { // certificates of users may be short-lived
			add(Finding{Severity: Failure, Object: path, Problem: fmt.Sprintf("the certificate of user %q: %s", name, problem),
				Remedy: remedy})
		}
	}
}
