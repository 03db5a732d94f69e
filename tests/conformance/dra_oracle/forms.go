package main

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// What the packages of 1.36 and 1.37 take.

const allocator = "incubating"

type sharedID = structured.SharedDeviceID

func sharedIDOf(id structured.DeviceID, share *types.UID) sharedID {
	return structured.MakeSharedDeviceID(id, share)
}

func slicesOf(given []*resourceapi.ResourceSlice) ([]*resourceapi.ResourceSlice, error) {
	return given, nil
}

func deviceOf(ask *celQuestion) cel.Device {
	return cel.Device{
		Driver:                   ask.Driver,
		AllowMultipleAllocations: ask.Device.AllowMultipleAllocations,
		Attributes:               ask.Device.Attributes,
		Capacity:                 ask.Device.Capacity,
	}
}
