package org.handspan.device

import android.annotation.SuppressLint
import android.content.Context
import android.graphics.ImageFormat
import android.hardware.camera2.CameraCaptureSession
import android.hardware.camera2.CameraCharacteristics
import android.hardware.camera2.CameraDevice
import android.hardware.camera2.CameraManager
import android.hardware.camera2.CaptureRequest
import android.media.ImageReader
import android.os.Handler
import android.os.HandlerThread
import android.util.Size
import org.handspan.client.MediaFile
import org.handspan.client.ToolError
import java.util.concurrent.ArrayBlockingQueue
import java.util.concurrent.TimeUnit

/** Takes one photo without a preview, with the camera at the back. Android lets only an app with a screen do that. */
internal class Camera(private val context: Context) {
    private val results = ArrayBlockingQueue<Any>(1)

    fun takePhoto(quality: String): MediaFile {
        val thread = HandlerThread("handspan-camera").apply { start() }
        try {
            return takePhoto(Quality.of(quality), Handler(thread.looper))
        } finally {
            thread.quitSafely()
        }
    }

    @SuppressLint("MissingPermission") // DeviceTools asks for it before
    private fun takePhoto(quality: Quality, handler: Handler): MediaFile {
        val manager = context.getSystemService(Context.CAMERA_SERVICE) as CameraManager
        val id = backCamera(manager)
        val size = choose(sizes(manager, id), quality)
        val reader = ImageReader.newInstance(size.width, size.height, ImageFormat.JPEG, 1)
        var camera: CameraDevice? = null
        try {
            manager.openCamera(id, opened { camera = it }, handler)
            camera = await("open") as CameraDevice
            capture(camera, reader, quality, handler)
            return MediaFile(await("answer") as ByteArray, "image/jpeg", "photo.jpg")
        } finally {
            camera?.close()
            reader.close()
        }
    }

    private fun opened(keep: (CameraDevice) -> Unit) = object : CameraDevice.StateCallback() {
        override fun onOpened(device: CameraDevice) {
            keep(device)
            results.offer(device)
        }

        override fun onDisconnected(device: CameraDevice) = end(device, "another app uses the camera")

        override fun onError(device: CameraDevice, error: Int) = end(device, "the camera failed with error $error")

        /** Android wants a camera closed that could not be used. */
        private fun end(device: CameraDevice, why: String) {
            device.close()
            fail(why)
        }
    }

    @Suppress("DEPRECATION") // the form that every Android since 5 has
    private fun capture(camera: CameraDevice, reader: ImageReader, quality: Quality, handler: Handler) {
        reader.setOnImageAvailableListener({ source ->
            source.acquireLatestImage()?.use { image ->
                val buffer = image.planes[0].buffer
                results.offer(ByteArray(buffer.remaining()).also { buffer.get(it) })
            }
        }, handler)
        camera.createCaptureSession(listOf(reader.surface), object : CameraCaptureSession.StateCallback() {
            override fun onConfigured(session: CameraCaptureSession) {
                val request = camera.createCaptureRequest(CameraDevice.TEMPLATE_STILL_CAPTURE)
                request.addTarget(reader.surface)
                request.set(CaptureRequest.JPEG_QUALITY, quality.jpeg.toByte())
                session.capture(request.build(), null, handler)
            }

            override fun onConfigureFailed(session: CameraCaptureSession) = fail("the camera can't be set up")
        }, handler)
    }

    private fun await(what: String): Any {
        val result = results.poll(SECONDS, TimeUnit.SECONDS) ?: throw ToolError("timeout", "The camera did not $what within $SECONDS s")
        if (result is ToolError) throw result
        return result
    }

    private fun fail(why: String) {
        results.clear()
        results.offer(ToolError("execution_failed", "No photo: $why"))
    }

    private fun backCamera(manager: CameraManager): String {
        val ids = manager.cameraIdList
        val back = ids.find { facing(manager, it) == CameraCharacteristics.LENS_FACING_BACK }
        return back ?: ids.firstOrNull() ?: throw ToolError("execution_failed", "This phone has no camera")
    }

    private fun facing(manager: CameraManager, id: String): Int? =
        manager.getCameraCharacteristics(id).get(CameraCharacteristics.LENS_FACING)

    private fun sizes(manager: CameraManager, id: String): List<Size> {
        val map = manager.getCameraCharacteristics(id).get(CameraCharacteristics.SCALER_STREAM_CONFIGURATION_MAP)
        return map?.getOutputSizes(ImageFormat.JPEG)?.toList() ?: emptyList()
    }

    private companion object {
        const val SECONDS = 20L
    }
}

/** How large a photo becomes, and how well it is kept. */
internal enum class Quality(val width: Int, val jpeg: Int) {
    LOW(640, 60), MEDIUM(1280, 80), HIGH(2560, 92);

    companion object {
        /** Without a word: medium. */
        fun of(word: String): Quality = values().find { it.name.equals(word, ignoreCase = true) } ?: MEDIUM
    }
}

/** The size whose width is nearest to the wanted one. */
internal fun choose(sizes: List<Size>, quality: Quality): Size =
    sizes.minByOrNull { kotlin.math.abs(it.width - quality.width) } ?: Size(quality.width, quality.width * 3 / 4)
