// Package registration makes a CSI driver known to the kubelet, which finds its socket in the plugin registration directory.
package registration

import (
	"context"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Server answers the kubelet's questions about one driver.
type Server struct {
	registerapi.UnimplementedRegistrationServer

	name, endpoint string
	failed         func(message string)

	mu         sync.Mutex
	registered bool
}

// New makes the server of a driver of that name whose CSI socket is endpoint. It calls failed if the kubelet refuses the driver.
func New(name, endpoint string, failed func(message string)) *Server {
	return &Server{name: name, endpoint: endpoint, failed: failed}
}

// Server returns a gRPC server of the registration service.
func (s *Server) Server() *grpc.Server {
	server := grpc.NewServer()
	registerapi.RegisterRegistrationServer(server, s)
	return server
}

// Registered tells whether the kubelet has accepted the driver.
func (s *Server) Registered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.registered
}

// GetInfo implements registerapi.RegistrationServer.
func (s *Server) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type:              registerapi.CSIPlugin,
		Name:              s.name,
		Endpoint:          s.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus implements registerapi.RegistrationServer.
func (s *Server) NotifyRegistrationStatus(_ context.Context, status *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	s.mu.Lock()
	s.registered = status.GetPluginRegistered()
	s.mu.Unlock()
	if !status.GetPluginRegistered() {
		s.failed(status.GetError())
		return &registerapi.RegistrationStatusResponse{}, nil
	}
	slog.Info("Registered with the kubelet", "driver", s.name)
	return &registerapi.RegistrationStatusResponse{}, nil
}
