// Package kubeconfig makes kubeconfigs. [Render] makes the
// administrator's from the files of package pki, and [Merge] adds it to a user's
// own file, of which it keeps a backup. For users and service accounts,
// [IssueCertificate] and [IssueToken] get credentials from a running server, [Bind]
// binds a role, and [RenderUser] and [WriteInCluster] write the files. Reading and
// writing the format is k8s.io/client-go's clientcmd.
package kubeconfig
