package main

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// What the packages of 1.38 take: devices and slices with strings that are unique, and shared devices without shares.

const allocator = "stable"

type sharedID = structured.DeviceID

func sharedIDOf(id structured.DeviceID, _ *types.UID) sharedID { return id }

func slicesOf(given []*resourceapi.ResourceSlice) ([]*draapi.ResourceSlice, error) {
	var converted []*draapi.ResourceSlice
	for _, slice := range given {
		var out draapi.ResourceSlice
		if err := draapi.Convert_v1_ResourceSlice_To_api_ResourceSlice(slice, &out, nil); err != nil {
			return nil, err
		}
		converted = append(converted, &out)
	}
	return converted, nil
}

func deviceOf(ask *celQuestion) cel.Device {
	spec := resourceapi.ResourceSliceSpec{Driver: ask.Driver, Devices: []resourceapi.Device{ask.Device}}
	slices, err := slicesOf([]*resourceapi.ResourceSlice{{Spec: spec}})
	if err != nil {
		panic(err)
	}
	device := slices[0].Spec.Devices[0]
	return cel.Device{
		Driver:                   ask.Driver,
		AllowMultipleAllocations: device.AllowMultipleAllocations,
		LookupUniqueString:       slices[0].LookupUniqueString,
		Attributes:               device.Attributes,
		Capacity:                 device.Capacity,
	}
}
