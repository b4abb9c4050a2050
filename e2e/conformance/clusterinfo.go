package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

// publishClusterInfo makes the config map that the bootstrap signer signs. On
// other clusters kubeadm makes it: a kubeconfig with the address and the CA
// and without credentials, in which the cluster has no name.
func publishClusterInfo(ctx context.Context, kubeconfig string) error {
	admin, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return fmt.Errorf("publish the cluster info: read the kubeconfig: %w", err)
	}
	rest, err := clientcmd.NewDefaultClientConfig(*admin, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("publish the cluster info: read the kubeconfig: %w", err)
	}
	info := clientcmdapi.NewConfig()
	info.Clusters[""] = &clientcmdapi.Cluster{Server: rest.Host, CertificateAuthorityData: rest.CAData}
	text, err := clientcmd.Write(*info)
	if err != nil {
		return fmt.Errorf("publish the cluster info: %w", err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("publish the cluster info: %w", err)
	}
	_, err = client.CoreV1().ConfigMaps(metav1.NamespacePublic).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: bootstrapapi.ConfigMapClusterInfo},
		Data:       map[string]string{bootstrapapi.KubeConfigKey: string(text)},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("publish the cluster info: %w", err)
	}
	return nil
}
